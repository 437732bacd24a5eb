/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription with thousands of cursors goes: in slices, and holds nobody back meanwhile. All
 * its cursors read one topic here, which is as good as thousands of topics.
 */
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/reader/sweep.h"

#include "broker/delivery/acks/queue_private.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define CURSORS 10000u

struct world {
    struct shard_harness h;
    struct shard_client *publisher, *wild, *other;
    struct amb_topic *topic;
    uint32_t id;
};

static const struct amb_subscription_options blocks = {.slow = AMB_SLOW_BLOCK,
                                                       .slow_block_ns = INT64_MAX};

static unsigned count(const struct amb_list_node *list)
{
    unsigned n = 0;
    AMB_LIST_FOR_EACH (node, list) {
        n++;
    }
    return n;
}

static void attach(struct world *w, uint32_t handle, unsigned cursors)
{
    struct amb_subscription *sub = amb_session_subscription(w->wild->session, handle);
    for (unsigned i = 0; i < cursors; i++) {
        struct amb_begun begun;
        amb_begin_find(w->topic, NULL, &begun);
        assert_int_equal(amb_subscription_attach(sub, w->topic, &begun), AMB_OK);
    }
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL);
    w->id = harness_topic(&w->h, "t", 0);
    w->topic = harness_home(&w->h, w->id);
    w->publisher = shard_client_create(&w->h, 0, NULL);
    w->wild = shard_client_create(&w->h, 0, NULL);
    w->other = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->publisher, 0, w->id, false);
    client_subscribe(w->other, 0, w->id, &blocks);
    client_subscribe(w->wild, 0, w->id, &blocks);
    harness_settle(&w->h);
    attach(w, 0, CURSORS);
    assert_int_equal(count(&w->topic->cursors), CURSORS + 2);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_forget(&w->h);
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void test_cursors_go_in_slices(void **state)
{
    struct world *w = *state;
    client_unsubscribe(w->wild, 0);
    unsigned left = count(&w->topic->cursors);
    assert_in_range(CURSORS + 2 - left, 1, 2 * AMB_SWEEP_NOW);
    while (left > 1) {
        assert_true(amb_shard_is_dirty(&w->h.shards[0])); /* It does not sleep on it. */
        (void)harness_turn(&w->h, 0);
        unsigned now = count(&w->topic->cursors);
        assert_in_range(left - now, 1, AMB_SWEEP_TURN);
        left = now;
    }
    harness_settle(&w->h);
    assert_null(amb_session_subscription(w->wild->session, 0));
    assert_true(amb_list_is_empty(&w->h.shards[0].sweep.owners));
}

static void test_what_goes_gets_nothing_and_holds_nobody_back(void **state)
{
    struct world *w = *state;
    client_unsubscribe(w->wild, 0);
    client_send(w->publisher, 0, 4, 64);
    (void)harness_turn(&w->h, 0);
    (void)shard_client_turn(w->publisher);
    (void)harness_turn(&w->h, 0);
    assert_true(count(&w->topic->cursors) > 1);
    assert_int_equal(w->topic->log.next_seq, 5);
    assert_int_equal(w->topic->log.lo, w->topic->log.hi); /* All have passed it. */
    harness_settle(&w->h);
    assert_int_equal(w->other->subs[0].msgs, 4);
    assert_int_equal(w->wild->subs[0].msgs, 0);
}

static void test_a_session_goes_before_its_cursors(void **state)
{
    struct world *w = *state;
    client_close(w->wild, false);
    client_die(w->wild);
    (void)harness_turn(&w->h, 0);
    (void)harness_turn(&w->h, 0);
    assert_true(count(&w->topic->cursors) > 1);
    client_send(w->publisher, 0, 4, 64);
    harness_settle(&w->h);
    assert_null(w->wild->session);
    assert_int_equal(count(&w->topic->cursors), 1);
    assert_int_equal(w->other->subs[0].msgs, 4);
}

static void test_many_subscriptions_of_a_session_share_a_turn(void **state)
{
    struct world *w = *state;
    for (uint32_t handle = 1; handle < CLIENT_HANDLES; handle++) {
        client_subscribe(w->wild, handle, w->id, &blocks);
        attach(w, handle, 2 * AMB_SWEEP_NOW);
    }
    harness_settle(&w->h);
    unsigned had = count(&w->topic->cursors);
    client_close(w->wild, false);
    assert_in_range(had - count(&w->topic->cursors), 1, AMB_SWEEP_TURN + AMB_SWEEP_NOW);
    harness_settle(&w->h);
    assert_int_equal(count(&w->topic->cursors), 1);
}

static void test_a_handle_is_used_anew_while_cursors_go(void **state)
{
    struct world *w = *state;
    client_unsubscribe(w->wild, 0);
    client_subscribe(w->wild, 0, w->id, &blocks);
    (void)harness_turn(&w->h, 0);
    client_send(w->publisher, 0, 4, 64);
    harness_settle(&w->h);
    assert_int_equal(w->wild->subs[0].msgs, 4);
    assert_int_equal(count(&w->topic->cursors), 2);
}

/* A topic that leaves takes its cursors along, also those that a sweep would come to next. */
static void test_a_queue_ends_with_the_topic_of_its_last_cursors(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    const struct amb_queue_options options = {.slow = AMB_SLOW_DROP_OLDEST};
    struct amb_queue *queue;
    assert_int_equal(amb_queue_create(shard, 1, &options, NULL, &queue), AMB_OK);
    for (unsigned i = 0; i < 2 * AMB_SWEEP_NOW; i++) {
        struct amb_begun begun;
        amb_begin_find(w->topic, NULL, &begun);
        assert_int_equal(amb_queue_attach(queue, w->topic, &begun), AMB_OK);
    }
    amb_queue_close(queue);
    assert_false(amb_list_is_empty(&shard->sweep.owners));
    assert_false(amb_list_is_empty(&shard->sweep.owners));
    while (!amb_list_is_empty(&queue->cursors)) {
        struct amb_cursor *cursor =
            AMB_CONTAINER_OF(queue->cursors.next, struct amb_cursor, of_sub);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    amb_queue_free_if_done(queue); /* As when its last take comes home, before the next sweep. */
    assert_true(amb_list_is_empty(&shard->sweep.owners));
    harness_settle(&w->h);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_cursors_go_in_slices),
        T(test_what_goes_gets_nothing_and_holds_nobody_back),
        T(test_a_session_goes_before_its_cursors),
        T(test_many_subscriptions_of_a_session_share_a_turn),
        T(test_a_handle_is_used_anew_while_cursors_go),
        T(test_a_queue_ends_with_the_topic_of_its_last_cursors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
