/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log alone: entries here have a size and a reference and nothing else.
 */
#include "broker/shard/entry.h"
#include "broker/topic/log/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct amb_entry *make(uint32_t count, uint64_t bytes)
{
    struct amb_entry *entry = calloc(1, sizeof(*entry));
    assert_non_null(entry);
    *entry = (struct amb_entry){.refs = 1, .count = count, .data_len = bytes};
    return entry;
}

static void drop_all(struct amb_log *log)
{
    while (log->lo < log->hi) {
        free(amb_log_pop(log));
    }
    amb_log_fini(log);
}

static void test_numbers_begin_at_one_and_leave_no_gap(void **state)
{
    (void)state;
    struct amb_log log;
    amb_log_init(&log);
    assert_int_equal(amb_log_append(&log, make(3, 48), 0), AMB_OK);
    assert_int_equal(amb_log_append(&log, make(1, 16), 0), AMB_OK);
    assert_int_equal(amb_log_at(&log, 0)->first_seq, 1);
    assert_int_equal(amb_log_at(&log, 1)->first_seq, 4);
    assert_int_equal(log.next_seq, 5);
    amb_log_check(&log);
    drop_all(&log);
}

static void test_a_shadow_keeps_the_numbers_of_home(void **state)
{
    (void)state;
    struct amb_log log;
    amb_log_init(&log);
    assert_int_equal(amb_log_append(&log, make(2, 32), 100), AMB_OK);
    assert_int_equal(amb_log_append(&log, make(2, 32), 110), AMB_OK);
    assert_int_equal(amb_log_at(&log, 1)->first_seq, 110);
    assert_int_equal(log.next_seq, 112);
    amb_log_check(&log);
    drop_all(&log);
}

static void test_order_and_figures_hold_through_growth_and_wrap_around(void **state)
{
    (void)state;
    struct amb_log log;
    amb_log_init(&log);
    uint64_t popped = 0, appended = 0;
    for (unsigned round = 0; round < 300; round++) {
        for (unsigned i = 0; i < 7; i++) {
            assert_int_equal(amb_log_append(&log, make(1 + i, 16 * i), 0), AMB_OK);
            appended++;
        }
        for (unsigned i = 0; i < 5; i++) {
            struct amb_entry *entry = amb_log_pop(&log);
            assert_int_equal(entry->count, 1 + popped % 7);
            popped++;
            free(entry);
        }
        amb_log_check(&log);
    }
    assert_int_equal(log.hi - log.lo, appended - popped);
    assert_int_equal(log.lo, popped);
    drop_all(&log);
}

static void test_bytes_are_counted_from_any_position(void **state)
{
    (void)state;
    struct amb_log log;
    amb_log_init(&log);
    assert_int_equal(amb_log_bytes_from(&log, 0), 0);
    for (unsigned i = 1; i <= 4; i++) {
        assert_int_equal(amb_log_append(&log, make(1, 100 * i), 0), AMB_OK);
    }
    free(amb_log_pop(&log));
    assert_int_equal(log.bytes, 900);
    assert_int_equal(log.msgs, 3);
    assert_int_equal(amb_log_bytes_from(&log, 1), 900);
    assert_int_equal(amb_log_bytes_from(&log, 3), 400);
    assert_int_equal(amb_log_bytes_from(&log, 4), 0);
    drop_all(&log);
}

static void test_at_its_maximum_it_refuses_and_changes_nothing(void **state)
{
    (void)state;
    struct amb_log log;
    struct amb_entry entry = {.refs = 1, .count = 1};
    amb_log_init(&log);
    for (uint64_t i = 0; i < AMB_LOG_ENTRIES_MAX; i++) {
        assert_int_equal(amb_log_append(&log, &entry, 0), AMB_OK);
    }
    assert_int_equal(amb_log_append(&log, &entry, 0), AMB_ELIMIT);
    assert_int_equal(log.hi, AMB_LOG_ENTRIES_MAX);
    assert_int_equal(log.next_seq, AMB_LOG_ENTRIES_MAX + 1);
    (void)amb_log_pop(&log);
    assert_int_equal(amb_log_append(&log, &entry, 0), AMB_OK);
    while (log.lo < log.hi) {
        (void)amb_log_pop(&log);
    }
    amb_log_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_begin_at_one_and_leave_no_gap),
        cmocka_unit_test(test_a_shadow_keeps_the_numbers_of_home),
        cmocka_unit_test(test_order_and_figures_hold_through_growth_and_wrap_around),
        cmocka_unit_test(test_bytes_are_counted_from_any_position),
        cmocka_unit_test(test_at_its_maximum_it_refuses_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
