/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest of a topic's readers, with anything remembered: readers come, go, and are moved by
 * hand.
 */
#include "broker/topic/append.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/slowest.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    struct amb_topic *topic;
    struct amb_cursor cursors[4];
};

/* Ten entries, of which nobody has read any. */
static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 2, NULL);
    w->topic = harness_home(&w->h, harness_topic(&w->h, "t", 0));
    for (unsigned i = 0; i < 10; i++) {
        struct amb_entry *entry = harness_entry(&w->h.shards[0], 1);
        assert_int_equal(amb_topic_append(w->topic, entry, 0), AMB_OK);
    }
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 4; i++) {
        amb_cursor_detach(&w->cursors[i]);
    }
    harness_fini(&w->h);
    free(w);
    return 0;
}

static struct amb_cursor *reader(struct world *w, unsigned i, bool holds, uint64_t position)
{
    struct amb_cursor *cursor = &w->cursors[i];
    *cursor = (struct amb_cursor){.topic = NULL};
    amb_list_init(&cursor->of_sub);
    const struct amb_begun begun = {.position = position, .seq = position + 1};
    amb_cursor_attach(cursor, w->topic, NULL, holds ? AMB_SLOW_BLOCK : AMB_SLOW_DROP_OLDEST,
                      INT64_MAX, &begun);
    cursor->hold.is_replaying = false; /* It holds from the first. */
    return cursor;
}

static void assert_slowest(struct world *w, uint64_t of_all, uint64_t holding)
{
    for (unsigned i = 0; i < 2; i++) { /* The reader that was found, and the remembered one. */
        assert_int_equal(amb_topic_read_from(w->topic), of_all);
        assert_int_equal(amb_topic_holding_from(w->topic), holding);
    }
}

static void test_without_readers_it_is_the_end(void **state)
{
    struct world *w = *state;
    assert_slowest(w, 10, 10);
}

static void test_the_slowest_may_change_when_it_moves(void **state)
{
    struct world *w = *state;
    struct amb_cursor *a = reader(w, 0, true, 3), *b = reader(w, 1, false, 5);
    assert_slowest(w, 3, 3);
    b->position = 9;
    assert_slowest(w, 3, 3);
    a->position = 6;
    assert_slowest(w, 6, 6);
    a->position = 10; /* Now it is the other. */
    assert_slowest(w, 9, 10);
}

static void test_a_reader_behind_the_slowest_is_the_slowest(void **state)
{
    struct world *w = *state;
    (void)reader(w, 0, true, 5);
    assert_slowest(w, 5, 5);
    (void)reader(w, 1, false, 2);
    assert_slowest(w, 2, 5);
    (void)reader(w, 2, true, 4);
    assert_slowest(w, 2, 4);
    (void)reader(w, 3, true, 7);
    assert_slowest(w, 2, 4);
}

static void test_the_first_reader_is_the_slowest(void **state)
{
    struct world *w = *state;
    assert_slowest(w, 10, 10);
    (void)reader(w, 0, true, 10);
    assert_slowest(w, 10, 10);
    (void)reader(w, 1, true, 9);
    assert_slowest(w, 9, 9);
}

static void test_the_next_one_is_the_slowest_when_it_ends(void **state)
{
    struct world *w = *state;
    struct amb_cursor *a = reader(w, 0, true, 1);
    (void)reader(w, 1, true, 4);
    assert_slowest(w, 1, 1);
    amb_cursor_detach(a);
    assert_slowest(w, 4, 4);
    a = reader(w, 0, true, 4); /* In the same place in memory. */
    assert_slowest(w, 4, 4);
    amb_cursor_detach(a);
    amb_cursor_detach(&w->cursors[1]);
    assert_slowest(w, 10, 10);
}

static void test_who_does_not_hold_any_more_is_passed_over(void **state)
{
    struct world *w = *state;
    struct amb_cursor *a = reader(w, 0, true, 2);
    (void)reader(w, 1, true, 6);
    assert_slowest(w, 2, 2);
    a->hold.is_dropping = true;
    amb_topic_reader_changed(w->topic, &a->position);
    assert_slowest(w, 2, 6);
    a->hold.is_dropping = false;
    amb_topic_reader_changed(w->topic, &a->position);
    assert_slowest(w, 2, 2);
}

static void test_other_workers_are_readers_too(void **state)
{
    struct world *w = *state;
    struct amb_lend *lend = &w->topic->lending.lends[1];
    (void)reader(w, 0, true, 5);
    assert_slowest(w, 5, 5);
    lend->position = 3;
    amb_topic_count_lent(w->topic, lend, 1, 0, 0);
    assert_slowest(w, 3, 5);
    amb_topic_count_lent(w->topic, lend, 0, 1, 0);
    assert_slowest(w, 3, 3);
    lend->position = 8;
    assert_slowest(w, 5, 5);
    amb_topic_count_lent(w->topic, lend, -1, -1, 0);
    assert_slowest(w, 5, 5);
}

static void test_what_is_gone_is_wanted_by_nobody(void **state)
{
    struct world *w = *state;
    (void)reader(w, 0, false, 1);
    assert_slowest(w, 1, 10);
    while (amb_topic_next_grant(w->topic, &(struct amb_entry *){NULL})) {
    }
    amb_topic_forget(w->topic, 4);
    assert_slowest(w, 4, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_without_readers_it_is_the_end),
        T(test_the_slowest_may_change_when_it_moves),
        T(test_a_reader_behind_the_slowest_is_the_slowest),
        T(test_the_first_reader_is_the_slowest),
        T(test_the_next_one_is_the_slowest_when_it_ends),
        T(test_who_does_not_hold_any_more_is_passed_over),
        T(test_other_workers_are_readers_too),
        T(test_what_is_gone_is_wanted_by_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
