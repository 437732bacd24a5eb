/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/per_object: figures with labels, names of any bytes, and an answer that is cut. */
#include "broker/http/per_object.h"

#include "broker/count/counters.h"
#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "wire/codec/topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct amb_counters counters;
static struct amb_counters_image image;

static void put(uint32_t id, const char *name, uint64_t messages)
{
    const struct amb_topic_words words = {.worker = 0};
    const struct amb_topic_numbers numbers = {.messages = messages};
    const char *const texts[] = {name, "normal", ""};
    struct amb_listed listed = {0};
    amb_counters_list(&counters, &listed, AMB_COUNTERS_TOPIC, id, &words, sizeof(words), texts, 3);
    amb_counters_put_numbers(&counters, amb_counters_take_numbers(&counters), AMB_COUNTERS_TOPIC, 0,
                             id, &numbers, sizeof(numbers));
}

static int fill(void **state)
{
    (void)state;
    const struct amb_counters_options options = {
        .why = "a test", .workers = 1, .objects = 64, .name = "a", .version = "1", .ucx = "off"};
    if (amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    put(1, "a.b", 3);
    put(2, "<script>\"\\\n", 7);
    put(3, "a.c", 9);
    amb_counters_view(&counters, &image);
    return 0;
}

static int empty(void **state)
{
    (void)state;
    amb_counters_destroy(&counters);
    return 0;
}

static char *ask(const char *query, uint32_t most, enum amb_exposition_form form)
{
    char *text = NULL, why[AMB_COUNTERS_REFUSAL_MAX] = "";
    size_t len = 0;
    assert_int_equal(amb_per_object(&image, query, most, form, &text, &len, why), AMB_OK);
    assert_int_equal(strlen(text), len);
    return text;
}

static void test_objects_have_labels_and_their_names_are_escaped(void **state)
{
    (void)state;
    char *text = ask("topics", 10, AMB_EXPOSITION_PROMETHEUS);
    assert_non_null(strstr(text, "# TYPE ambroker_topic_messages_total counter\n"));
    assert_non_null(strstr(text, "ambroker_topic_messages_total{topic=\"a.b\",priority=\"normal\","
                                 "tenant=\"\"} 3\n"));
    assert_non_null(
        strstr(text, "{topic=\"<script>\\\"\\\\\\n\",priority=\"normal\",tenant=\"\"} 7\n"));
    assert_non_null(strstr(text, "\nambroker_per_object_cut 0\n"));
    free(text);
    text = ask("topics", 10, AMB_EXPOSITION_OPENMETRICS);
    assert_non_null(strstr(text, "# TYPE ambroker_topic_messages counter\n"));
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
}

static void test_an_answer_is_filtered_and_says_when_it_is_cut(void **state)
{
    (void)state;
    char *text = ask("topics match=a.>", 10, AMB_EXPOSITION_PROMETHEUS);
    assert_null(strstr(text, "<script>"));
    assert_non_null(strstr(text, "\"a.c\""));
    free(text);
    text = ask("topics sort=messages", 1, AMB_EXPOSITION_PROMETHEUS);
    assert_non_null(strstr(text, "\"a.c\""));
    assert_null(strstr(text, "\"a.b\""));
    assert_non_null(strstr(text, "\nambroker_per_object_cut 1\n"));
    free(text);
}

static void test_inboxes_have_no_series(void **state)
{
    (void)state;
    put(4, amb_topic_shown("$INBOX.0123456789abcdef0123456789abcdef"), 1);
    put(5, amb_topic_shown("$INBOX.fedcba9876543210fedcba9876543210"), 1);
    put(6, "$DLQ.a", 1);
    char *text = ask("topics", 10, AMB_EXPOSITION_PROMETHEUS);
    assert_null(strstr(text, "$INBOX"));
    assert_non_null(strstr(text, "{topic=\"$DLQ.a\""));
    free(text);
}

static void test_wrong_queries_are_refused(void **state)
{
    (void)state;
    static const char *const queries[] = {"",         "workers",           "status",
                                          "nonsense", "topics match=a..b", "topics sort=nothing"};
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        char *text = NULL, why[AMB_COUNTERS_REFUSAL_MAX] = "";
        size_t len = 0;
        assert_int_equal(
            amb_per_object(&image, queries[i], 10, AMB_EXPOSITION_PROMETHEUS, &text, &len, why),
            AMB_EINVAL);
        assert_true(why[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_have_labels_and_their_names_are_escaped),
        cmocka_unit_test(test_an_answer_is_filtered_and_says_when_it_is_cut),
        cmocka_unit_test(test_inboxes_have_no_series),
        cmocka_unit_test(test_wrong_queries_are_refused),
    };
    return cmocka_run_group_tests(tests, fill, empty);
}
