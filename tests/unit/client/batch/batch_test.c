/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a batch, and the rule that says when it leaves, under a clock of the test's. */
#include "client/batch/batch.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define US INT64_C(1000)

static void payloads_and_records_are_laid_out_and_padded(void **state)
{
    (void)state;
    struct amb_batch *batch = amb_batch_create(60000);
    assert_non_null(batch);
    memset(batch->data, 0xff, 256);
    amb_batch_add(batch, "hello", 5);
    amb_batch_add(batch, "", 0);
    const struct amb_iov pieces[] = {{"0123456789", 10}, {NULL, 0}, {"abcdefghij", 10}};
    amb_batch_add_pieces(batch, pieces, 3, 20);
    assert_int_equal(batch->count, 3);
    assert_int_equal(batch->data_len, 16 + 32);
    amb_batch_close(batch);
    assert_int_equal(batch->out.frame.meta_len, 48);
    assert_memory_equal(batch->data, "hello\0\0\0\0\0\0\0\0\0\0\0", 16);
    assert_memory_equal(batch->data + 16, "0123456789abcdefghij\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    amb_batch_destroy(&batch);
    assert_null(batch);
}

static void properties_follow_the_records_and_the_body_is_well_formed(void **state)
{
    (void)state;
    /* { name_len, type, value_len, name, NUL, value, NUL } */
    const uint8_t blob[] = {1, 0, 1, 0, 'n', 0, 'v', 0};
    struct amb_batch *batch = amb_batch_create(60000);
    amb_batch_add(batch, "a", 1);
    amb_batch_add(batch, "b", 1);
    assert_int_equal(amb_batch_add_props(batch, blob, sizeof(blob), 7, 9), AMB_OK);
    amb_batch_add(batch, "c", 1);
    uint64_t size = amb_batch_size(batch);
    amb_batch_close(batch);
    assert_int_equal(size, batch->out.frame.data_len + batch->out.frame.meta_len);
    uint8_t body[256];
    memcpy(body, batch->data, batch->data_len);
    memcpy(body + batch->data_len, batch->meta, batch->out.frame.meta_len);
    assert_int_equal(amb_body_check(&batch->out.frame, body), AMB_OK);
    struct amb_body_iter iter;
    struct amb_message_view view;
    amb_body_iter_init(&iter, body, batch->data_len, 3);
    assert_true(amb_body_iter_next(&iter, &view));
    assert_int_equal(view.props_len, 0);
    assert_true(amb_body_iter_next(&iter, &view));
    assert_int_equal(view.props_len, sizeof(blob));
    assert_memory_equal(view.props, blob, sizeof(blob));
    assert_int_equal(view.key_hash, 7);
    assert_int_equal(view.ttl_ms, 9);
    amb_batch_destroy(&batch);
}

static void a_batch_takes_what_fits_and_no_more(void **state)
{
    (void)state;
    struct amb_batch *batch = amb_batch_create(1000);
    static const uint8_t payload[200];
    uint32_t count = 0;
    while (amb_batch_fits(batch, sizeof(payload), 0, 1024)) {
        amb_batch_add(batch, payload, sizeof(payload));
        count++;
    }
    assert_int_equal(count, 4); /* 208 + 16 each */
    assert_false(amb_batch_fits(batch, 100, 0, 1024));
    assert_true(amb_batch_fits(batch, 80, 0, 1024));
    assert_false(amb_batch_fits(batch, 80, 0, 4));
    amb_batch_undo(batch);
    assert_int_equal(batch->count, 3);
    assert_true(amb_batch_fits(batch, sizeof(payload), 0, 1024));
    amb_batch_destroy(&batch);
}

static struct amb_batch_rule rule;

static void open_at(int64_t now_ns)
{
    amb_batch_rule_open(&rule, now_ns);
}

static void left_full_at(int64_t now_ns)
{
    open_at(now_ns);
    amb_batch_rule_sent(&rule, 60000);
}

static void a_lone_message_leaves_at_once(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    open_at(1000 * US);
    assert_true(amb_batch_rule_ask(&rule, 1, 80, false, 1000 * US));
}

static void while_one_is_in_flight_messages_gather_until_linger(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    open_at(1000 * US);
    assert_false(amb_batch_rule_ask(&rule, 1, 80, true, 1000 * US));
    assert_false(amb_batch_rule_ask(&rule, 5, 400, true, 1049 * US));
    assert_true(amb_batch_rule_ask(&rule, 5, 400, true, 1050 * US));
}

static void a_fast_stream_raises_the_minimum_and_silence_forgets_it(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    int64_t now = 1000 * US;
    for (int i = 0; i < 20; i++) {
        open_at(now);
        assert_true(amb_batch_rule_ask(&rule, 300, 20000, false, now + 5 * US));
        amb_batch_rule_sent(&rule, 20000);
        now += 6 * US;
    }
    assert_int_equal(rule.min_bytes, AMB_BATCH_MIN_MAX);
    open_at(now + 10 * US);
    assert_false(amb_batch_rule_ask(&rule, 1, 80, false, now + 10 * US));
    /* Older than 10 us and still small: not so fast after all. */
    assert_true(amb_batch_rule_ask(&rule, 9, 720, false, now + 21 * US));
    assert_int_equal(rule.min_bytes, AMB_BATCH_MIN_MAX / 2);
    amb_batch_rule_sent(&rule, 20000);
    open_at(now + 72 * US);
    assert_int_equal(rule.min_bytes, 0);
    assert_true(amb_batch_rule_ask(&rule, 1, 80, false, now + 72 * US));
}

static void only_fast_batches_are_looked_at_less_often(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    open_at(1000 * US);
    assert_int_equal(rule.mask, 0);
    (void)amb_batch_rule_ask(&rule, 2, 160, true, 1000 * US + 90);
    assert_int_equal(rule.mask, 15);
    (void)amb_batch_rule_ask(&rule, 2, 160, true, 1000 * US + 1500);
    assert_int_equal(rule.mask, 7);
    amb_batch_rule_sent(&rule, 20000);
    open_at(1011 * US);
    (void)amb_batch_rule_ask(&rule, 2, 160, true, 1014 * US);
    assert_int_equal(rule.mask, 0); /* 3 us apart */
}

static void a_batch_that_fills_up_gets_more_time_where_batches_are_dear(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    amb_batch_rule_patient(&rule, 60000);
    open_at(1000 * US);
    assert_true(amb_batch_rule_ask(&rule, 5, 400, true, 1050 * US)); /* a slow one does not */
    assert_false(amb_batch_rule_ask(&rule, 200, 16000, true, 1051 * US));
    assert_false(amb_batch_rule_ask(&rule, 500, 40000, true, 1199 * US));
    assert_true(amb_batch_rule_ask(&rule, 510, 40800, true, 1200 * US));
}

static void while_batches_fill_up_none_leaves_before_its_time(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    amb_batch_rule_patient(&rule, 60000);
    left_full_at(990 * US);
    open_at(1000 * US);
    assert_true(rule.is_flowing);
    assert_false(amb_batch_rule_ask(&rule, 300, 24000, false, 1005 * US));
    /* Its publisher lost the CPU, and is back: one late look is not yet silence, two are. */
    assert_false(amb_batch_rule_ask(&rule, 316, 25000, true, 1400 * US));
    assert_false(amb_batch_rule_ask(&rule, 332, 26000, true, 1401 * US));
    assert_false(amb_batch_rule_ask(&rule, 332, 26000, true, 1450 * US));
    assert_true(amb_batch_rule_ask(&rule, 332, 26000, true, 1500 * US));
}

static void no_message_waits_for_ever_in_a_flow(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    amb_batch_rule_patient(&rule, 60000);
    left_full_at(990 * US);
    open_at(1000 * US);
    int64_t now = 1000 * US;
    while (!amb_batch_rule_ask(&rule, 300, 24000, true, now)) {
        now += 5 * US;
        assert_true(now <= 3000 * US);
    }
    assert_true(now == 3000 * US);
}

static void silence_ends_a_flow(void **state)
{
    (void)state;
    amb_batch_rule_init(&rule, 50 * US);
    amb_batch_rule_patient(&rule, 60000);
    left_full_at(900 * US);
    open_at(1200 * US);
    assert_false(rule.is_flowing);
    assert_true(amb_batch_rule_ask(&rule, 1, 80, false, 1200 * US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_and_records_are_laid_out_and_padded),
        cmocka_unit_test(properties_follow_the_records_and_the_body_is_well_formed),
        cmocka_unit_test(a_batch_takes_what_fits_and_no_more),
        cmocka_unit_test(a_lone_message_leaves_at_once),
        cmocka_unit_test(while_one_is_in_flight_messages_gather_until_linger),
        cmocka_unit_test(a_fast_stream_raises_the_minimum_and_silence_forgets_it),
        cmocka_unit_test(only_fast_batches_are_looked_at_less_often),
        cmocka_unit_test(a_batch_that_fills_up_gets_more_time_where_batches_are_dear),
        cmocka_unit_test(while_batches_fill_up_none_leaves_before_its_time),
        cmocka_unit_test(no_message_waits_for_ever_in_a_flow),
        cmocka_unit_test(silence_ends_a_flow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
