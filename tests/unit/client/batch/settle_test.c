/* SPDX-License-Identifier: Apache-2.0 */
/* From batch numbers to ranges of publisher sequence numbers. */
#include "client/batch/settle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum amb_status tell(struct amb_settle *settle, uint64_t batch, struct amb_settle_range said)
{
    return amb_settle_frame(settle, batch, &said);
}

static void send_batches(struct amb_settle *settle, uint64_t count, uint64_t msgs)
{
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(amb_settle_reserve(settle), AMB_OK);
        amb_settle_sent(settle, (settle->last + 1) * msgs, 100);
    }
}

static void a_thousand_batches_are_one_range(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    send_batches(&settle, 1000, 10);
    assert_int_equal(amb_settle_upto(&settle, 400, false), AMB_OK);
    assert_int_equal(settle.settled_seq, 4000);
    assert_int_equal(settle.settled_bytes, 40000);
    assert_int_equal(amb_settle_upto(&settle, 1000, false), AMB_OK);
    struct amb_settle_range range;
    assert_true(amb_settle_take(&settle, &range));
    assert_int_equal(range.first, 1);
    assert_int_equal(range.last, 10000);
    assert_int_equal(range.status, AMB_OK);
    assert_false(amb_settle_take(&settle, &range));
    assert_int_equal(settle.failed, 0);
    amb_settle_fini(&settle);
}

static void a_refused_batch_is_a_range_of_its_own_and_the_flush_hears_of_it(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    send_batches(&settle, 5, 10);
    assert_int_equal(tell(&settle, 3, (struct amb_settle_range){.status = AMB_EREJECTED}), AMB_OK);
    assert_int_equal(amb_settle_upto(&settle, 5, false), AMB_OK);
    struct amb_settle_range range;
    assert_true(amb_settle_take(&settle, &range));
    assert_int_equal(range.last, 20);
    assert_true(amb_settle_take(&settle, &range));
    assert_int_equal(range.first, 21);
    assert_int_equal(range.last, 30);
    assert_int_equal(range.status, AMB_EREJECTED);
    assert_true(amb_settle_take(&settle, &range));
    assert_int_equal(range.first, 31);
    assert_int_equal(range.status, AMB_OK);
    assert_int_equal(settle.failed, 10);
    assert_int_equal(settle.failure, AMB_EREJECTED);
    amb_settle_fini(&settle);
}

static void with_receipts_nothing_settles_before_its_own(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    send_batches(&settle, 3, 1);
    assert_int_equal(amb_settle_upto(&settle, 3, true), AMB_OK);
    assert_int_equal(settle.settled_seq, 0);
    assert_int_equal(tell(&settle, 1, (struct amb_settle_range){.log_seq = 77, .matched = 2}),
                     AMB_OK);
    assert_int_equal(amb_settle_upto(&settle, 3, true), AMB_OK);
    assert_int_equal(settle.settled_seq, 1);
    struct amb_settle_range range;
    assert_true(amb_settle_take(&settle, &range));
    assert_int_equal(range.log_seq, 77);
    assert_int_equal(range.matched, 2);
    amb_settle_fini(&settle);
}

static void a_refusal_that_a_counter_overtook_is_still_told(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, false, 0, 0);
    send_batches(&settle, 1, 1);
    assert_int_equal(amb_settle_upto(&settle, 1, false), AMB_OK);
    assert_int_equal(tell(&settle, 1, (struct amb_settle_range){.status = AMB_ENOMEM}), AMB_OK);
    assert_int_equal(settle.failure, AMB_ENOMEM);
    amb_settle_fini(&settle);
}

static void numbers_that_were_never_sent_are_refused(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    send_batches(&settle, 2, 1);
    assert_int_equal(amb_settle_upto(&settle, 3, false), AMB_EPROTO);
    assert_int_equal(tell(&settle, 3, (struct amb_settle_range){0}), AMB_EPROTO);
    assert_int_equal(tell(&settle, 0, (struct amb_settle_range){0}), AMB_EPROTO);
    amb_settle_fini(&settle);
}

static void what_was_delivered_adds_up_where_more_match_later(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    settle.awaits_delivery = true;
    send_batches(&settle, 3, 10);
    assert_int_equal(tell(&settle, 1, (struct amb_settle_range){.matched = 2, .dropped = 3}),
                     AMB_OK);
    assert_int_equal(tell(&settle, 2, (struct amb_settle_range){.matched = 2}), AMB_OK);
    assert_int_equal(tell(&settle, 3, (struct amb_settle_range){.matched = 3}), AMB_OK);
    assert_int_equal(amb_settle_upto(&settle, 3, true), AMB_OK);
    struct amb_settle_range range;
    const uint64_t lasts[] = {20, 30}, delivered[] = {37, 30}, dropped[] = {3, 0};
    for (unsigned i = 0; i < 2; i++) {
        assert_true(amb_settle_take(&settle, &range));
        assert_int_equal(range.last, lasts[i]);
        assert_int_equal(range.matched, 2 + i);
        assert_int_equal(range.delivered, delivered[i]);
        assert_int_equal(range.dropped, dropped[i]);
    }
    assert_false(amb_settle_take(&settle, &range));
    amb_settle_fini(&settle);
}

static void failures_without_a_listener_stay_bounded(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    send_batches(&settle, 1000, 1);
    for (uint64_t i = 1; i <= 1000; i += 2) {
        assert_int_equal(tell(&settle, i, (struct amb_settle_range){.status = AMB_EREJECTED}),
                         AMB_OK);
    }
    assert_int_equal(amb_settle_upto(&settle, 1000, false), AMB_OK);
    struct amb_settle_range range;
    uint64_t next = 1, ranges = 0;
    while (amb_settle_take(&settle, &range)) {
        assert_int_equal(range.first, next);
        next = range.last + 1;
        ranges++;
    }
    assert_int_equal(next, 1001);
    assert_int_equal(ranges, AMB_SETTLE_RANGES_MAX);
    assert_int_equal(settle.failed, 500);
    amb_settle_fini(&settle);
}

static void the_rest_is_settled_once_sent_or_not(void **state)
{
    (void)state;
    struct amb_settle settle;
    amb_settle_init(&settle, true, 0, 0);
    send_batches(&settle, 2, 10);
    amb_settle_rest(&settle, 25, AMB_ELOST);
    amb_settle_rest(&settle, 25, AMB_ECLOSED);
    struct amb_settle_range range;
    assert_true(amb_settle_take(&settle, &range));
    assert_int_equal(range.first, 1);
    assert_int_equal(range.last, 25);
    assert_int_equal(range.status, AMB_ELOST);
    assert_false(amb_settle_take(&settle, &range));
    assert_int_equal(settle.settled_bytes, 200);
    amb_settle_fini(&settle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_batches_are_one_range),
        cmocka_unit_test(a_refused_batch_is_a_range_of_its_own_and_the_flush_hears_of_it),
        cmocka_unit_test(with_receipts_nothing_settles_before_its_own),
        cmocka_unit_test(a_refusal_that_a_counter_overtook_is_still_told),
        cmocka_unit_test(numbers_that_were_never_sent_are_refused),
        cmocka_unit_test(what_was_delivered_adds_up_where_more_match_later),
        cmocka_unit_test(failures_without_a_listener_stay_bounded),
        cmocka_unit_test(the_rest_is_settled_once_sent_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
