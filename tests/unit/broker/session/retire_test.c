/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retiring segments: every client that has one mapped is told, on every shard, and nobody else.
 */
#include "broker/session/retire.h"
#include "broker/session/session.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *p, *near, *far, *other;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 2, NULL);
    w->h.shards[0].windows.max = 1; /* None stands open, so no segment is kept for one. */
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    w->topic = harness_topic(&w->h, "t", 0);
    w->p = shard_client_create(&w->h, 0, NULL);
    w->near = shard_client_create(&w->h, 0, &maps);
    w->far = shard_client_create(&w->h, 1, &maps);
    w->other = shard_client_create(&w->h, 1, &maps);
    client_open_pub(w->p, 0, w->topic, false);
    client_subscribe(w->near, 0, w->topic, NULL);
    client_subscribe(w->far, 0, w->topic, NULL);
    harness_settle(&w->h);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void publish(struct world *w)
{
    client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(1, 100));
    harness_settle(&w->h);
    client_send(w->p, 0, 1, 100);
    harness_settle(&w->h);
}

static void test_clients_of_all_shards_are_told_and_others_are_not(void **state)
{
    struct world *w = *state;
    publish(w);
    assert_int_equal(w->near->segment_count, 1);
    assert_int_equal(w->far->segment_count, 1);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    assert_int_equal(w->near->drops, 1);
    assert_int_equal(w->far->drops, 1);
    assert_int_equal(w->other->drops, 0);
    /* The next segment has another number and is offered anew. */
    publish(w);
    publish(w);
    assert_int_equal(client_delivery(w->far, 0, 3)->frame.type, AMB_FRAME_MAP);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_a_segment_that_is_held_does_not_go(void **state)
{
    struct world *w = *state;
    publish(w);
    publish(w);
    assert_int_equal(client_delivery(w->far, 0, 2)->frame.type, AMB_FRAME_MAP);
    client_drain(w->near, 0);
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    assert_int_equal(w->far->drops, 0);
    client_check_held(w->far, 0);
    client_drain(w->far, 0);
}

static void test_ready_for_one_that_is_gone_is_answered_by_drop(void **state)
{
    struct world *w = *state;
    w->far->answers_offers = false;
    publish(w);
    client_drain(w->far, 0);
    client_drain(w->near, 0);
    uint64_t segment = w->far->segments[0].id;
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    assert_true(amb_session_is_retired(w->far->session, segment));
    client_map(w->far, segment);
    harness_settle(&w->h);
    assert_int_equal(w->far->drops, 1);
    assert_false(amb_session_is_retired(w->far->session, segment));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_clients_of_all_shards_are_told_and_others_are_not),
        T(test_a_segment_that_is_held_does_not_go),
        T(test_ready_for_one_that_is_gone_is_answered_by_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
