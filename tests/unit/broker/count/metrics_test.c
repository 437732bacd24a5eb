/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/count/metrics: each word that is counted has one row, and each row is one that a time
 * series, a view and a page can have.
 */
#include "broker/count/metrics.h"

#include "broker/count/broker_stats.h"
#include "broker/count/figures.h"
#include "broker/count/shard_stats.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How many rows of that scope and part have the word. */
static unsigned rows_of(enum amb_counters_scope scope, enum amb_counters_part part, uint32_t word)
{
    unsigned rows = 0;
    for (size_t i = 0; i < amb_metric_count; i++) {
        const struct amb_counters_metric *m = &amb_metrics[i];
        bool is_word = part != AMB_COUNTERS_IN_TEXTS || (m->kind != AMB_COUNTERS_TEXT && !m->is_id);
        rows += m->scope == scope && m->part == part && is_word && word >= m->at &&
                word < m->at + m->words;
    }
    return rows;
}

static void test_each_word_has_one_row(void **state)
{
    (void)state;
    static const struct {
        enum amb_counters_scope scope;
        enum amb_counters_part part;
        size_t size;
    } structs[] = {
        {AMB_COUNTERS_BROKER, AMB_COUNTERS_IN_BLOCK, sizeof(struct amb_broker_stats)},
        {AMB_COUNTERS_WORKER, AMB_COUNTERS_IN_BLOCK, sizeof(struct amb_shard_stats)},
        {AMB_COUNTERS_TOPIC, AMB_COUNTERS_IN_NUMBERS, sizeof(struct amb_topic_numbers)},
        {AMB_COUNTERS_TOPIC, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_topic_words)},
        {AMB_COUNTERS_SUBSCRIPTION, AMB_COUNTERS_IN_NUMBERS,
         sizeof(struct amb_subscription_numbers)},
        {AMB_COUNTERS_SUBSCRIPTION, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_subscription_words)},
        {AMB_COUNTERS_QUEUE, AMB_COUNTERS_IN_NUMBERS, sizeof(struct amb_queue_numbers)},
        {AMB_COUNTERS_QUEUE, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_queue_words)},
        {AMB_COUNTERS_CLIENT, AMB_COUNTERS_IN_NUMBERS, sizeof(struct amb_client_numbers)},
        {AMB_COUNTERS_CLIENT, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_client_words)},
        {AMB_COUNTERS_CLOSED, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_closed_words)},
        {AMB_COUNTERS_LINE, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_line_words)},
        {AMB_COUNTERS_LOSS, AMB_COUNTERS_IN_TEXTS, sizeof(struct amb_loss_words)},
    };
    for (size_t i = 0; i < sizeof(structs) / sizeof(structs[0]); i++) {
        for (uint32_t word = 0; word < structs[i].size / 8; word++) {
            if (rows_of(structs[i].scope, structs[i].part, word) != 1) {
                fail_msg("word %u of %s, part %d, has %u rows", word,
                         amb_metric_scope_name(structs[i].scope), (int)structs[i].part,
                         rows_of(structs[i].scope, structs[i].part, word));
            }
        }
        assert_int_equal(rows_of(structs[i].scope, structs[i].part, (uint32_t)structs[i].size / 8),
                         0);
    }
}

static bool ends(const char *text, const char *end)
{
    size_t len = strlen(text), size = strlen(end);
    return len >= size && strcmp(text + len - size, end) == 0;
}

static void test_names_are_those_of_time_series(void **state)
{
    (void)state;
    for (size_t i = 0; i < amb_metric_count; i++) {
        const struct amb_counters_metric *m = &amb_metrics[i];
        assert_non_null(memchr(m->name, '\0', sizeof(m->name)));
        assert_non_null(memchr(m->column, '\0', sizeof(m->column)));
        assert_non_null(memchr(m->unit, '\0', sizeof(m->unit)));
        assert_non_null(memchr(m->help, '\0', sizeof(m->help)));
        assert_int_equal(strncmp(m->name, "ambroker_", 9), 0);
        for (const char *c = m->name; *c != '\0'; c++) {
            assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '_');
        }
        assert_true(ends(m->help, "."));
        if (m->kind == AMB_COUNTERS_COUNTER && !ends(m->name, "_sum_seconds")) {
            assert_true(ends(m->name, "_total"));
        }
        bool is_time = strcmp(m->unit, "ns") == 0 || strcmp(m->unit, "s") == 0 ||
                       strcmp(m->unit, "unix_s") == 0;
        assert_int_equal(is_time, ends(m->name, "_seconds"));
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(m->name, amb_metrics[k].name);
            assert_false(m->scope == amb_metrics[k].scope && m->column[0] != '\0' &&
                         strcmp(m->column, amb_metrics[k].column) == 0 &&
                         m->part == amb_metrics[k].part); /* Else they are added up. */
        }
    }
}

static void test_the_page_has_each_metric(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    amb_metrics_reference(out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < amb_metric_count; i++) {
        assert_non_null(strstr(text, amb_metrics[i].name));
        assert_non_null(strstr(text, amb_metrics[i].help));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_word_has_one_row),
        cmocka_unit_test(test_names_are_those_of_time_series),
        cmocka_unit_test(test_the_page_has_each_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
