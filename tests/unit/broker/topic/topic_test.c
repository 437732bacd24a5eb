/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics without links: entries are appended by hand, cursors are moved by hand.
 */
#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/append.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)

static const char rules[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"block\"; max_bytes = \"64K\"; },\n"
    "           { match = \"drop\"; full = \"drop-oldest\"; max_bytes = \"64K\"; },\n"
    "           { match = \"reject\"; full = \"reject\"; max_bytes = \"64K\"; },\n"
    "           { match = \"large.block\"; max_bytes = \"1G\"; },\n"
    "           { match = \"large.reject\"; full = \"reject\"; max_bytes = \"1G\"; },\n"
    "           { match = \"few\"; full = \"reject\"; max_messages = 5; } );\n";

struct world {
    struct shard_harness h;
    struct amb_topic *topic;
    struct amb_cursor cursors[4];
    unsigned count;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 2, rules);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < w->count; i++) {
        amb_cursor_detach(&w->cursors[i]);
    }
    if (w->topic != NULL) {
        amb_topic_trim(w->topic);
    }
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void use(struct world *w, const char *name)
{
    w->topic = harness_home(&w->h, harness_topic(&w->h, name, 0));
}

static struct amb_cursor *reader(struct world *w, bool holds)
{
    struct amb_cursor *cursor = &w->cursors[w->count++];
    amb_list_init(&cursor->of_sub);
    const struct amb_begun end = {.position = w->topic->log.hi, .seq = w->topic->log.next_seq};
    amb_cursor_attach(cursor, w->topic, NULL, holds ? AMB_SLOW_BLOCK : AMB_SLOW_DROP_OLDEST,
                      INT64_MAX, &end);
    return cursor;
}

/* As route does: bytes that can be granted are granted at once. Returns grants. */
static unsigned grants(struct world *w)
{
    struct amb_entry *entry;
    unsigned count = 0;
    while (amb_topic_next_grant(w->topic, &entry)) {
        assert_non_null(entry);
        count++;
    }
    return count;
}

static enum amb_status append(struct world *w, uint32_t count, uint64_t len)
{
    struct amb_shard *shard = &w->h.shards[0];
    struct amb_entry *entry = harness_entry(shard, count);
    entry->data_len = len;
    enum amb_status status = amb_topic_append(w->topic, entry, 0);
    if (status != AMB_OK) {
        amb_entry_unref(entry, shard);
    }
    amb_log_check(&w->topic->log);
    return status;
}

static void test_without_readers_everything_goes(void **state)
{
    struct world *w = *state;
    use(w, "block");
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(append(w, 1, 30 * KIB), AMB_OK);
        assert_int_equal(grants(w), 1);
    }
    amb_topic_trim(w->topic);
    assert_int_equal(w->topic->log.bytes, 0);
    assert_int_equal(w->topic->counts.msgs_dropped, 0);
}

static void test_a_reader_begins_at_the_end_and_holds_what_it_has_not_passed(void **state)
{
    struct world *w = *state;
    use(w, "block");
    assert_int_equal(append(w, 3, 48), AMB_OK);
    struct amb_cursor *cursor = reader(w, true);
    assert_int_equal(cursor->position, 1);
    assert_int_equal(cursor->loss.expected_seq, 4);
    assert_int_equal(append(w, 1, 16), AMB_OK);
    (void)grants(w);
    amb_topic_trim(w->topic);
    assert_int_equal(w->topic->log.lo, 1);
    assert_int_equal(amb_topic_holding_from(w->topic), 1);
    cursor->position = 2;
    amb_topic_trim(w->topic);
    assert_int_equal(w->topic->log.lo, 2);
}

static void test_a_blocking_topic_takes_what_was_granted_past_its_limit(void **state)
{
    struct world *w = *state;
    use(w, "block");
    (void)reader(w, true);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(append(w, 1, 40 * KIB), AMB_OK);
    }
    assert_int_equal(w->topic->log.msgs, 5);
}

static void test_grants_stop_at_the_depth_and_come_in_order(void **state)
{
    struct world *w = *state;
    use(w, "block"); /* its depth is max_bytes, 64 KiB */
    struct amb_cursor *cursor = reader(w, true);
    assert_int_equal(append(w, 1, 100 * KIB), AMB_OK);
    assert_int_equal(grants(w), 1); /* one entry always passes */
    assert_int_equal(append(w, 1, 10 * KIB), AMB_OK);
    assert_int_equal(append(w, 1, 10 * KIB), AMB_OK);
    assert_int_equal(grants(w), 0);
    cursor->position = 1;
    assert_int_equal(grants(w), 2);
    assert_int_equal(grants(w), 0);
}

static void test_grants_of_tiny_batches_stop_long_before_the_log_is_full(void **state)
{
    struct world *w = *state;
    use(w, "any");
    struct amb_cursor *cursor = reader(w, true);
    uint64_t granted = 0;
    for (unsigned i = 0; i < 2 * AMB_TOPIC_DEPTH_ENTRIES; i++) {
        struct amb_shard *shard = &w->h.shards[0];
        struct amb_entry *entry = amb_pool_get(&shard->entries.pool);
        assert_non_null(entry);
        *entry = (struct amb_entry){.refs = 1, .home = shard, .count = 1, .meta_len = 16};
        assert_int_equal(amb_topic_append(w->topic, entry, 0), AMB_OK);
        granted += grants(w);
    }
    assert_int_equal(granted, AMB_TOPIC_DEPTH_ENTRIES);
    cursor->position = w->topic->log.hi;
    granted += grants(w);
    assert_int_equal(granted, 2 * AMB_TOPIC_DEPTH_ENTRIES);
}

static void test_a_reader_that_does_not_hold_stops_no_grant_and_is_jumped_over(void **state)
{
    struct world *w = *state;
    use(w, "block");
    struct amb_cursor *cursor = reader(w, false);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(append(w, 2, 20 * KIB), AMB_OK);
        assert_int_equal(grants(w), 1);
    }
    assert_true(w->topic->log.bytes <= 64 * KIB);
    assert_true(w->topic->log.lo > cursor->position);
    assert_int_equal(w->topic->counts.msgs_dropped, 2 * w->topic->log.lo);
}

static void test_dropping_readers_make_room_before_anybody_is_hurt(void **state)
{
    struct world *w = *state;
    use(w, "reject");
    (void)reader(w, false);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(append(w, 1, 20 * KIB), AMB_OK);
        (void)grants(w);
    }
    assert_int_equal(w->topic->counts.msgs_rejected, 0);
}

static void test_a_full_rejecting_topic_refuses_and_changes_nothing(void **state)
{
    struct world *w = *state;
    use(w, "reject");
    (void)reader(w, true);
    assert_int_equal(append(w, 1, 40 * KIB), AMB_OK);
    assert_int_equal(append(w, 3, 40 * KIB), AMB_EREJECTED);
    assert_int_equal(w->topic->log.next_seq, 2);
    assert_int_equal(w->topic->counts.msgs_rejected, 3);
    assert_int_equal(grants(w), 1);
}

static void test_messages_are_limited_too_and_one_entry_always_fits(void **state)
{
    struct world *w = *state;
    use(w, "few");
    (void)reader(w, true);
    assert_int_equal(append(w, 9, 16), AMB_OK);
    assert_int_equal(append(w, 1, 16), AMB_EREJECTED);
}

static void test_a_full_dropping_topic_drops_even_what_is_held(void **state)
{
    struct world *w = *state;
    use(w, "drop");
    struct amb_cursor *cursor = reader(w, true);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(append(w, 1, 20 * KIB), AMB_OK);
        assert_int_equal(grants(w), 1);
    }
    assert_true(w->topic->log.lo > cursor->position);
    assert_int_equal(w->topic->log.hi - w->topic->log.lo, 3);
    assert_int_equal(w->topic->counts.msgs_dropped, 7);
}

/* All the entries that a log may have, which a holding reader wants, and one that spills. */
static void fill_beside_a_spiller(struct world *w, const char *name)
{
    use(w, name);
    (void)reader(w, true);
    struct amb_cursor *spiller = reader(w, false);
    amb_cursor_spill(spiller, true);
    struct amb_shard *shard = &w->h.shards[0];
    for (uint64_t i = 0; i < AMB_LOG_ENTRIES_MAX; i++) {
        struct amb_entry *entry = harness_entry(shard, 1);
        assert_int_equal(amb_topic_append(w->topic, entry, 0), AMB_OK);
        w->topic->ungranted = w->topic->log.hi;
    }
}

static void test_a_spiller_makes_no_room_of_what_is_held(void **state)
{
    struct world *w = *state;
    fill_beside_a_spiller(w, "large.block");
    assert_int_equal(append(w, 1, 16), AMB_ELIMIT);
    assert_int_equal(w->topic->log.lo, 0);
    assert_int_equal(w->topic->counts.msgs_dropped, 0);
    w->cursors[0].position = 10; /* The spiller alone wants the first ten. */
    assert_int_equal(append(w, 1, 16), AMB_OK);
    assert_int_equal(w->topic->log.lo, 1);
    assert_int_equal(w->topic->spill.lost, 1);
    w->cursors[0].position = w->cursors[1].position = w->topic->log.hi;
}

static void test_beside_a_spiller_a_rejecting_topic_rejects_too(void **state)
{
    struct world *w = *state;
    fill_beside_a_spiller(w, "large.reject");
    assert_int_equal(append(w, 1, 16), AMB_EREJECTED);
    assert_int_equal(w->topic->log.lo, 0);
    assert_int_equal(w->topic->counts.msgs_rejected, 1);
    w->cursors[0].position = w->cursors[1].position = w->topic->log.hi;
}

static void test_shedding_takes_only_what_nobody_holds(void **state)
{
    struct world *w = *state;
    use(w, "block");
    (void)reader(w, false);
    assert_int_equal(append(w, 1, 16), AMB_OK);
    assert_int_equal(append(w, 1, 16), AMB_OK);
    (void)grants(w);
    (void)reader(w, true);
    assert_int_equal(append(w, 1, 16), AMB_OK);
    (void)grants(w);
    assert_true(harness_shed(w->topic));
    assert_int_equal(w->topic->log.lo, 2);
    assert_false(harness_shed(w->topic));
}

static void test_a_lend_reads_and_holds_like_a_cursor(void **state)
{
    struct world *w = *state;
    use(w, "block");
    struct amb_lend *lend = &w->topic->lending.lends[1];
    amb_topic_count_lent(w->topic, lend, 1, 0, 0);
    assert_int_equal(append(w, 1, 16), AMB_OK);
    (void)grants(w);
    assert_int_equal(amb_topic_holding_from(w->topic), 1); /* it does not hold */
    amb_topic_trim(w->topic);
    assert_int_equal(w->topic->log.lo, 0); /* but reads */
    amb_topic_count_lent(w->topic, lend, 0, 1, 0);
    assert_int_equal(amb_topic_holding_from(w->topic), 0);
    assert_false(harness_shed(w->topic));
    amb_topic_count_lent(w->topic, lend, 0, -1, 0);
    assert_true(harness_shed(w->topic));
    amb_topic_count_lent(w->topic, lend, -1, 0, 0);
}

static void test_an_entry_stays_until_its_window_is_given_back(void **state)
{
    struct world *w = *state;
    use(w, "block");
    struct amb_cursor *holding = reader(w, true);
    assert_int_equal(append(w, 1, 60 * KIB), AMB_OK);
    assert_int_equal(append(w, 1, 60 * KIB), AMB_OK);
    assert_int_equal(grants(w), 0);
    holding->position = 2;
    amb_topic_trim(w->topic);
    assert_int_equal(w->topic->log.lo, 0);
    assert_int_equal(grants(w), 2);
    amb_topic_trim(w->topic);
    assert_int_equal(w->topic->log.lo, 2);
}

static void test_a_reader_whose_time_is_over_holds_nothing(void **state)
{
    struct world *w = *state;
    use(w, "block");
    struct amb_cursor *cursor = reader(w, true);
    assert_int_equal(append(w, 1, 16), AMB_OK);
    assert_int_equal(amb_topic_holding_from(w->topic), 0);
    cursor->hold.is_dropping = true;
    amb_topic_reader_went(w->topic, &cursor->position);
    assert_int_equal(amb_topic_holding_from(w->topic), 1);
    assert_int_equal(grants(w), 1);
    assert_true(harness_shed(w->topic));
}

static void test_a_cursor_leaves_once_and_marks_the_topic_if_it_was_behind(void **state)
{
    struct world *w = *state;
    use(w, "block");
    struct amb_cursor *cursor = reader(w, true);
    struct amb_cursor *behind = reader(w, true);
    amb_cursor_detach(cursor);
    assert_true(amb_list_is_empty(&w->topic->walks.dirty)); /* It has held nothing back. */
    assert_int_equal(append(w, 1, 64), AMB_OK);
    amb_list_remove(&w->topic->walks.dirty);
    amb_cursor_detach(behind);
    amb_cursor_detach(behind);
    assert_false(amb_list_is_empty(&w->topic->walks.dirty));
    amb_topic_mark(w->topic); /* harmless twice */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_without_readers_everything_goes),
        T(test_a_reader_begins_at_the_end_and_holds_what_it_has_not_passed),
        T(test_a_blocking_topic_takes_what_was_granted_past_its_limit),
        T(test_grants_stop_at_the_depth_and_come_in_order),
        T(test_grants_of_tiny_batches_stop_long_before_the_log_is_full),
        T(test_a_reader_that_does_not_hold_stops_no_grant_and_is_jumped_over),
        T(test_dropping_readers_make_room_before_anybody_is_hurt),
        T(test_a_full_rejecting_topic_refuses_and_changes_nothing),
        T(test_messages_are_limited_too_and_one_entry_always_fits),
        T(test_a_full_dropping_topic_drops_even_what_is_held),
        T(test_a_spiller_makes_no_room_of_what_is_held),
        T(test_beside_a_spiller_a_rejecting_topic_rejects_too),
        T(test_shedding_takes_only_what_nobody_holds),
        T(test_a_lend_reads_and_holds_like_a_cursor),
        T(test_an_entry_stays_until_its_window_is_given_back),
        T(test_a_reader_whose_time_is_over_holds_nothing),
        T(test_a_cursor_leaves_once_and_marks_the_topic_if_it_was_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
