/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/counters/view: rows have what the slots have, and those of several workers are added up.
 * Pages together are one JSON text, sorted and cut as asked.
 */
#include "wire/counters/view.h"

#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOPICS 2500u

static struct amb_counters counters;
static uint32_t texts_of[TOPICS], numbers_of[TOPICS + 1];

static void put_topic(uint32_t i, const char *name, const char *priority)
{
    const struct amb_topic_words words = {.worker = 1, .tenant = i % 5};
    const char *texts[] = {name, priority};
    (void)amb_counters_put_texts(&counters, &texts_of[i], AMB_COUNTERS_TOPIC, i, &words,
                                 sizeof(words), texts, 2);
}

/* Losses of tenants 0 and 1, and two log lines. */
static void put_sections(void)
{
    for (uint64_t i = 0; i < 3; i++) {
        const struct amb_loss_words loss = {.subscription = 10 + i,
                                            .client = 4,
                                            .worker = 1,
                                            .tenant = i % 2,
                                            .messages = 100 * (i + 1),
                                            .first_s = 5,
                                            .last_s = 50 - i};
        const char *texts[] = {i == 0 ? "a.>" : "b.x", "<script>", "slow"};
        amb_counters_write_texts(&counters.losses[i], AMB_COUNTERS_LOSS, i + 1, &loss, sizeof(loss),
                                 texts, 3);
    }
    const struct amb_line_words line = {.lines = 3, .first_s = 1, .last_s = 2};
    const struct amb_line_words later = {.lines = 1, .first_s = 9, .last_s = 9};
    const char *texts[] = {"warn", "\"quoted\" \\ line"}, *others[] = {"error", "worse"};
    amb_counters_write_texts(&counters.lines[0], AMB_COUNTERS_LINE, 1, &line, sizeof(line), texts,
                             2);
    amb_counters_write_texts(&counters.lines[7], AMB_COUNTERS_LINE, 8, &later, sizeof(later),
                             others, 2);
}

/* Topics 0 to 2499; topic i has i % 100 messages. Its worker has counted those of even ones. */
static int fill(void **state)
{
    (void)state;
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 2,
                                                 .lines = 8,
                                                 .losses = 8,
                                                 .objects = 4096,
                                                 .name = "door",
                                                 .version = "1",
                                                 .ucx = "off",
                                                 .epoch = 0xab,
                                                 .now_ns = 1000000000};
    if (amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    for (uint32_t i = 0; i < TOPICS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "t.%u", (TOPICS - i) * 7 % TOPICS);
        put_topic(i, name, "normal");
        const struct amb_topic_numbers numbers = {.messages = i % 100, .spilled = 1};
        numbers_of[i] = i % 2 == 0 ? amb_counters_take_numbers(&counters) : 0;
        if (numbers_of[i] != 0) {
            amb_counters_put_numbers(&counters, numbers_of[i], AMB_COUNTERS_TOPIC, 1, i, &numbers,
                                     sizeof(numbers));
        }
    }
    /* Another worker spills for topic 0. */
    const struct amb_topic_numbers more = {.spilled = 41, .spilled_bytes = 5};
    numbers_of[TOPICS] = amb_counters_take_numbers(&counters);
    amb_counters_put_numbers(&counters, numbers_of[TOPICS], AMB_COUNTERS_TOPIC, 0, 0, &more,
                             sizeof(more));
    amb_stat_add(&amb_counters_shard(&counters, 0)->msgs_in, 3);
    amb_stat_add(&amb_counters_shard(&counters, 1)->msgs_in, 4);
    put_sections();
    return 0;
}

static int drop(void **state)
{
    (void)state;
    amb_counters_destroy(&counters);
    return 0;
}

/* All pages together; their number. share: NULL: of all tenants. */
static json_t *answer_to(const struct amb_counters_share *share, const char *query, unsigned *pages)
{
    struct amb_counters_image image;
    struct amb_counters_view *view = NULL;
    char why[AMB_COUNTERS_REFUSAL_MAX] = "", *text = NULL;
    size_t size = 0;
    bool is_last = false;
    amb_counters_view(&counters, &image);
    if (amb_counters_view_open(&image, query, share, 0, &view, why) != AMB_OK) {
        fail_msg("%s: %s", query, why);
    }
    FILE *out = open_memstream(&text, &size);
    for (*pages = 0; !is_last; ++*pages) {
        char *page = amb_counters_view_page(view, 1000, &is_last);
        assert_non_null(page);
        (void)fputs(page, out);
        free(page);
    }
    assert_int_equal(fclose(out), 0);
    amb_counters_view_close(&view);
    assert_null(view);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        fail_msg("%s: %.200s", error.text, text);
    }
    free(text);
    return json;
}

static json_t *answer(const char *query, unsigned *pages)
{
    return answer_to(NULL, query, pages);
}

static json_int_t number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    if (!json_is_integer(value)) {
        fail_msg("'%s' is no number", key);
    }
    return json_integer_value(value);
}

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));
    return value == NULL ? "none" : value;
}

static void test_losses_are_rows(void **state)
{
    (void)state;
    unsigned pages;
    json_t *json = answer("loss", &pages), *rows = json_object_get(json, "loss");
    assert_int_equal(json_array_size(rows), 3);
    const json_t *row = json_array_get(rows, 0); /* The last one first. */
    assert_int_equal(number(row, "subscription"), 10);
    assert_int_equal(number(row, "client"), 4);
    assert_int_equal(number(row, "count"), 100);
    assert_int_equal(number(row, "first_s"), 5);
    assert_int_equal(number(row, "last_s"), 50);
    assert_string_equal(text(row, "pattern"), "a.>");
    assert_string_equal(text(row, "client_name"), "<script>");
    assert_string_equal(text(row, "reason"), "slow");
    json_decref(json);
    json = answer("loss b.* sort=count", &pages);
    rows = json_object_get(json, "loss");
    assert_int_equal(json_array_size(rows), 2);
    assert_int_equal(number(json_array_get(rows, 0), "count"), 300);
    json_decref(json);
    const struct amb_counters_share share = {.tenant = 1};
    json = answer_to(&share, "loss", &pages);
    rows = json_object_get(json, "loss");
    assert_int_equal(json_array_size(rows), 1);
    assert_int_equal(number(json_array_get(rows, 0), "subscription"), 11);
    assert_null(json_object_get(json_array_get(rows, 0), "tenant"));
    json_decref(json);
}

/* Their texts may have names of all tenants. */
static void test_log_lines_are_rows_for_the_whole_broker_alone(void **state)
{
    (void)state;
    unsigned pages;
    json_t *json = answer("errors", &pages), *rows = json_object_get(json, "errors");
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(text(json_array_get(rows, 0), "line"), "worse");
    assert_string_equal(text(json_array_get(rows, 1), "line"), "\"quoted\" \\ line");
    assert_string_equal(text(json_array_get(rows, 1), "level"), "warn");
    assert_int_equal(number(json_array_get(rows, 1), "count"), 3);
    json_decref(json);
    struct amb_counters_image image;
    struct amb_counters_view *view = NULL;
    const struct amb_counters_share share = {.tenant = 1};
    char why[AMB_COUNTERS_REFUSAL_MAX] = "";
    amb_counters_view(&counters, &image);
    assert_int_equal(amb_counters_view_open(&image, "errors", &share, 0, &view, why),
                     AMB_EFORBIDDEN);
    assert_string_equal(why, "errors is of the whole broker");
}

static void test_rows_have_what_slots_have(void **state)
{
    (void)state;
    unsigned pages;
    json_t *json = answer("topics", &pages), *rows = json_object_get(json, "topics");
    assert_int_equal(pages, 3);
    assert_int_equal(json_array_size(rows), TOPICS);
    assert_null(json_object_get(json, "not_shown"));
    const json_t *row = json_array_get(rows, 42);
    assert_string_equal(json_string_value(json_object_get(row, "topic")), "t.2206");
    assert_string_equal(json_string_value(json_object_get(row, "priority")), "normal");
    assert_int_equal(number(row, "worker"), 1);
    assert_int_equal(number(row, "messages"), 42);
    assert_int_equal(number(row, "spilled"), 1);
    /* Nobody has counted this one yet. */
    assert_null(json_object_get(json_array_get(rows, 43), "messages"));
    row = json_array_get(rows, 0);
    assert_int_equal(number(row, "spilled"), 42);
    assert_int_equal(number(row, "spilled_bytes"), 5);
    assert_int_equal(number(row, "messages"), 0);
    json_decref(json);
}

/* Worker 1 has died, or stands still, while it writes that slot. */
static void test_a_torn_slot_takes_no_part_of_a_sum_away(void **state)
{
    (void)state;
    unsigned pages;
    _Atomic uint64_t *sequence = &counters.numbers[numbers_of[0] - 1].words[AMB_SLOT_SEQUENCE];
    uint64_t before = atomic_fetch_or(sequence, 1);
    json_t *json = answer("topics", &pages), *rows = json_object_get(json, "topics");
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "topic")),
                        "t.0");
    assert_null(json_object_get(json_array_get(rows, 0), "spilled"));
    assert_int_equal(number(json_array_get(rows, 2), "spilled"), 1);
    json_decref(json);
    atomic_store(sequence, before);
}

static void test_rows_are_sorted_and_cut(void **state)
{
    (void)state;
    unsigned pages;
    json_t *json = answer("topics sort=messages top=30", &pages);
    json_t *rows = json_object_get(json, "topics");
    assert_int_equal(json_array_size(rows), 30);
    for (size_t i = 0; i < 25; i++) {
        assert_int_equal(number(json_array_get(rows, i), "messages"), 98);
    }
    assert_int_equal(number(json_array_get(rows, 25), "messages"), 96);
    json_decref(json);
    json = answer("topics sort=topic", &pages);
    rows = json_object_get(json, "topics");
    assert_int_equal(json_array_size(rows), TOPICS);
    for (size_t i = 1; i < TOPICS; i++) {
        const char *before =
            json_string_value(json_object_get(json_array_get(rows, i - 1), "topic"));
        assert_true(strcmp(before, json_string_value(
                                       json_object_get(json_array_get(rows, i), "topic"))) < 0);
    }
    json_decref(json);
    json = answer("topics match=t.77", &pages);
    assert_int_equal(json_array_size(json_object_get(json, "topics")), 1);
    json_decref(json);
    json = answer("topics none.*", &pages);
    assert_int_equal(json_array_size(json_object_get(json, "topics")), 0);
    assert_int_equal(pages, 1);
    json_decref(json);
    json = answer("subs", &pages);
    assert_int_equal(json_array_size(json_object_get(json, "subs")), 0);
    json_decref(json);
}

static void test_objects_without_a_slot_are_counted(void **state)
{
    (void)state;
    unsigned pages;
    amb_stat_set(&amb_counters_broker(&counters)->unlisted_topics, 12);
    json_t *json = answer("topics t.1", &pages);
    assert_int_equal(number(json, "not_shown"), 12);
    json_decref(json);
    amb_stat_set(&amb_counters_broker(&counters)->unlisted_topics, 0);
}

static void test_names_are_shown_as_text(void **state)
{
    (void)state;
    static const char *const names[] = {"<script>\"\\", "a\001\033[31m", "\xe2\x80\xaeright"};
    unsigned pages;
    for (size_t i = 0; i < 3; i++) {
        put_topic(5, names[i], "high");
        json_t *json = answer("topics sort=priority top=1", &pages);
        const json_t *row = json_array_get(json_object_get(json, "topics"), 0);
        assert_string_equal(json_string_value(json_object_get(row, "topic")), names[i]);
        json_decref(json);
    }
    put_topic(5, "\xff\xfe", "high"); /* no UTF-8 */
    json_t *json = answer("topics sort=priority top=1", &pages);
    const json_t *row = json_array_get(json_object_get(json, "topics"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "topic")), "?");
    json_decref(json);
}

static void test_workers_and_sums(void **state)
{
    (void)state;
    unsigned pages;
    json_t *json = answer("workers", &pages);
    const json_t *rows = json_object_get(json, "workers");
    assert_int_equal(json_array_size(rows), 2);
    assert_int_equal(number(json_array_get(rows, 1), "worker"), 1);
    assert_int_equal(number(json_array_get(rows, 1), "messages_in"), 4);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "processor")));
    json_decref(json);
    json = answer("status", &pages);
    assert_string_equal(json_string_value(json_object_get(json, "name")), "door");
    assert_string_equal(json_string_value(json_object_get(json, "epoch")), "00000000000000ab");
    assert_int_equal(number(json, "messages_in"), 7);
    assert_int_equal(number(json, "uptime_s"), 0);
    json_decref(json);
    json = answer("metrics", &pages);
    size_t found = 0, i;
    json_t *metric;
    json_array_foreach(json_object_get(json, "metrics"), i, metric)
    {
        if (strcmp(json_string_value(json_object_get(metric, "metric")),
                   "ambroker_messages_in_total") == 0) {
            found++;
            assert_int_equal(number(metric, "value"), 3 + number(metric, "worker"));
        }
    }
    assert_int_equal(found, 2);
    json_decref(json);
}

/* Topics 3, 8, 13 and so on are of tenant 3. */
static void test_a_tenant_sees_its_own(void **state)
{
    (void)state;
    const struct amb_counters_share share = {.tenant = 3, .unlisted = 2}, none = {.tenant = 5};
    unsigned pages;
    amb_stat_set(&amb_counters_broker(&counters)->unlisted_topics, 12);
    json_t *json = answer_to(&share, "topics sort=messages", &pages);
    const json_t *rows = json_object_get(json, "topics");
    assert_int_equal(json_array_size(rows), TOPICS / 5);
    assert_int_equal(number(json_array_get(rows, 0), "messages"), 98);
    assert_int_equal(number(json, "not_shown"), 2);
    json_decref(json);
    json = answer_to(&share, "topics sort=topic top=3", &pages);
    assert_int_equal(json_array_size(json_object_get(json, "topics")), 3);
    json_decref(json);
    json = answer_to(&share, "topics t.77", &pages); /* topic 2489 is of tenant 4 */
    assert_int_equal(json_array_size(json_object_get(json, "topics")), 0);
    json_decref(json);
    json = answer_to(&none, "topics", &pages);
    assert_int_equal(json_array_size(json_object_get(json, "topics")), 0);
    assert_null(json_object_get(json, "not_shown"));
    json_decref(json);
    amb_stat_set(&amb_counters_broker(&counters)->unlisted_topics, 0);
}

/* A slot that becomes another tenant's between two pages is not shown. */
static void test_a_slot_that_goes_to_another_tenant_is_not_shown(void **state)
{
    (void)state;
    const struct amb_counters_share share = {.tenant = 3};
    struct amb_counters_image image;
    struct amb_counters_view *view = NULL;
    char why[AMB_COUNTERS_REFUSAL_MAX];
    bool is_last;
    amb_counters_view(&counters, &image);
    assert_int_equal(amb_counters_view_open(&image, "topics", &share, 0, &view, why), AMB_OK);
    put_topic(3, "mine", "normal");
    free(amb_counters_view_page(view, 1, &is_last));
    const struct amb_topic_words words = {.worker = 1, .tenant = 4};
    const char *const texts[] = {"secret", "normal"};
    assert_true(amb_counters_put_texts(&counters, &texts_of[8], AMB_COUNTERS_TOPIC, 8, &words,
                                       sizeof(words), texts, 2));
    while (!is_last) {
        char *page = amb_counters_view_page(view, 1000, &is_last);
        assert_null(strstr(page, "secret"));
        free(page);
    }
    amb_counters_view_close(&view);
    put_topic(8, "mine", "normal");
}

static void test_views_of_the_whole_broker_are_of_no_tenant(void **state)
{
    (void)state;
    const struct amb_counters_share share = {.tenant = 3};
    const char *const queries[] = {"status", "metrics", "workers"};
    for (size_t i = 0; i < 3; i++) {
        struct amb_counters_image image;
        struct amb_counters_view *view = NULL;
        char why[AMB_COUNTERS_REFUSAL_MAX];
        amb_counters_view(&counters, &image);
        assert_int_equal(amb_counters_view_open(&image, queries[i], &share, 0, &view, why),
                         AMB_EFORBIDDEN);
        assert_null(view);
        assert_non_null(strstr(why, "of the whole broker"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_have_what_slots_have),
        cmocka_unit_test(test_losses_are_rows),
        cmocka_unit_test(test_log_lines_are_rows_for_the_whole_broker_alone),
        cmocka_unit_test(test_a_torn_slot_takes_no_part_of_a_sum_away),
        cmocka_unit_test(test_rows_are_sorted_and_cut),
        cmocka_unit_test(test_objects_without_a_slot_are_counted),
        cmocka_unit_test(test_names_are_shown_as_text),
        cmocka_unit_test(test_workers_and_sums),
        cmocka_unit_test(test_a_tenant_sees_its_own),
        cmocka_unit_test(test_a_slot_that_goes_to_another_tenant_is_not_shown),
        cmocka_unit_test(test_views_of_the_whole_broker_are_of_no_tenant),
    };
    return cmocka_run_group_tests(tests, fill, drop);
}
