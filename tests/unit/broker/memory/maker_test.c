/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maker: segments are made and unmade on its thread, and come to the pool by mail. One shard,
 * turned by hand, beside a maker that runs.
 */
#include "broker/config/config.h"
#include "broker/memory/bufpool_check.h"
#include "broker/memory/maker.h"
#include "broker/topic/reclaim.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sched.h>

#define MIB (UINT64_C(1) << 20)

struct world {
    struct shard_harness h;
    struct amb_maker maker;
    struct amb_shard *shard;
    struct amb_bufpool *pool;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL); /* 16 MiB in segments of 2 MiB */
    assert_int_equal(amb_maker_start(&w->maker), AMB_OK);
    w->shard = &w->h.shards[0];
    w->shard->memory.maker = &w->maker;
    w->pool = &w->shard->memory.bufpool;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    amb_maker_stop(&w->maker);
    w->shard->memory.maker = NULL;
    (void)amb_inbox_run(&w->shard->inbox);
    amb_bufpool_check(w->pool);
    harness_fini(&w->h);
    free(w);
    return 0;
}

/* Until it has a segment more than `before`. */
static void wait_for_segment(struct world *w, uint64_t before)
{
    while (w->pool->segment_bytes == before) {
        (void)sched_yield();
        (void)amb_inbox_run(&w->shard->inbox);
    }
}

static void test_who_can_wait_gets_a_segment_of_its_own_later(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_EAGAIN);
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf),
                     AMB_EAGAIN); /* one is enough */
    wait_for_segment(w, 0);
    assert_int_equal(w->pool->segment_bytes, 6 * MIB);
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_OK);
    assert_int_equal(w->pool->made_here, 0);
    assert_int_equal(buf.segment->size, 6 * MIB);
    amb_bufpool_free(w->pool, &buf);
}

/* A pool that lacks memory before that one's turn does not have it. */
static void test_a_segment_that_was_made_for_somebody_waits_for_him(void **state)
{
    struct world *w = *state;
    struct amb_buf buf, other;
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_EAGAIN);
    wait_for_segment(w, 0);
    assert_int_equal(amb_bufpool_alloc(w->pool, 12 * MIB, &other), AMB_ENOMEM);
    amb_bufpool_trim(w->pool, 0);
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_OK);
    amb_bufpool_free(w->pool, &buf);
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 9 * MIB, &buf), AMB_EAGAIN);
    wait_for_segment(w, 6 * MIB);
    amb_bufpool_served(w->pool); /* He has not come. */
    assert_int_equal(amb_bufpool_alloc(w->pool, 12 * MIB, &other), AMB_OK);
    amb_bufpool_free(w->pool, &other);
}

static void test_more_than_there_is_is_refused_at_once(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 17 * MIB, &buf), AMB_ENOMEM);
    assert_int_equal(atomic_load(&w->h.budget.used), 0);
}

static void test_a_spare_is_made_before_it_is_needed(void **state)
{
    struct world *w = *state;
    struct amb_buf buf[2];
    assert_int_equal(amb_bufpool_prepare(w->pool), AMB_OK);
    amb_bufpool_ahead(w->pool);
    assert_false(w->pool->is_making); /* all of it is free */
    assert_int_equal(amb_bufpool_alloc(w->pool, 640 << 10, &buf[0]), AMB_OK);
    amb_bufpool_ahead(w->pool);
    assert_false(w->pool->is_making);
    assert_int_equal(amb_bufpool_alloc(w->pool, 640 << 10, &buf[1]), AMB_OK);
    amb_bufpool_ahead(w->pool); /* less than half */
    assert_true(w->pool->is_making);
    wait_for_segment(w, 2 * MIB);
    amb_bufpool_ahead(w->pool);
    assert_false(w->pool->is_making);
    assert_int_equal(w->pool->made_here, 1);
    amb_bufpool_free(w->pool, &buf[0]);
    amb_bufpool_free(w->pool, &buf[1]);
}

static void test_the_last_quarter_of_memory_is_not_for_spares(void **state)
{
    struct world *w = *state;
    struct amb_buf buf[12];
    for (unsigned i = 0; i < 12; i++) { /* 12 MiB, full */
        assert_int_equal(amb_bufpool_alloc(w->pool, 1 * MIB, &buf[i]), AMB_OK);
    }
    amb_bufpool_ahead(w->pool);
    assert_false(w->pool->is_making);
    for (unsigned i = 0; i < 12; i++) {
        amb_bufpool_free(w->pool, &buf[i]);
    }
}

static void test_a_segment_that_nobody_needs_goes_elsewhere(void **state)
{
    struct world *w = *state;
    assert_int_equal(amb_bufpool_prepare(w->pool), AMB_OK);
    amb_bufpool_trim_later(w->pool, 0);
    assert_int_equal(w->pool->segment_bytes, 0);
    while (atomic_load(&w->h.budget.used) != 0) {
        (void)sched_yield();
    }
}

static void test_what_is_under_way_at_the_end_is_not_lost(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_EAGAIN);
    amb_maker_stop(&w->maker);
    (void)amb_inbox_run(&w->shard->inbox);
    assert_int_equal(w->pool->segment_bytes, 6 * MIB);
}

static void test_a_large_message_waits_for_its_segment(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "t", 0);
    struct shard_client *client = shard_client_create(&w->h, 0, NULL);
    client_open_pub(client, 0, topic, false);
    uint64_t len = w->h.config->server.max_message;
    client_want(client, 0, client_batch_bytes(1, len));
    while (!client_may_send(client, 0, 1, len)) {
        harness_settle(&w->h);
        harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
    }
    client_send(client, 0, 1, len);
    harness_settle(&w->h);
    assert_int_equal(client->pubs[0].accepted, 1);
    assert_int_equal(w->pool->made_here, 0);
}

/* Messages that nobody is held up for fill all there is, and are given up for it. */
static void test_a_large_message_waits_for_its_segment_where_others_are_dropped(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "t", 0), large = harness_topic(&w->h, "large", 0);
    struct shard_client *client = shard_client_create(&w->h, 0, NULL);
    struct shard_client *slow = shard_client_create(&w->h, 0, NULL);
    client_open_pub(client, 0, topic, false);
    client_open_pub(client, 1, large, false);
    client_subscribe(
        slow, 0, topic,
        &(struct amb_subscription_options){.slow = AMB_SLOW_DROP_OLDEST, .credit_msgs = 1});
    while (atomic_load(&w->h.budget.used) + 2 * MIB <= w->h.budget.max) {
        client_want(client, 0, client->pubs[0].bytes + client_batch_bytes(1, 60000));
        while (!client_may_send(client, 0, 1, 60000)) {
            harness_settle(&w->h);
        }
        client_send(client, 0, 1, 60000);
        harness_settle(&w->h);
    }
    uint64_t made_here = w->pool->made_here, lo = harness_home(&w->h, topic)->log.lo;
    uint64_t len = w->h.config->server.max_message;
    client_want(client, 1, client_batch_bytes(1, len));
    while (!client_may_send(client, 1, 1, len)) {
        harness_settle(&w->h);
        harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
    }
    assert_true(harness_home(&w->h, topic)->log.lo > lo);
    assert_int_equal(w->pool->made_here, made_here);
    client_drain(slow, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_who_can_wait_gets_a_segment_of_its_own_later),
        T(test_a_segment_that_was_made_for_somebody_waits_for_him),
        T(test_more_than_there_is_is_refused_at_once),
        T(test_a_spare_is_made_before_it_is_needed),
        T(test_the_last_quarter_of_memory_is_not_for_spares),
        T(test_a_segment_that_nobody_needs_goes_elsewhere),
        T(test_what_is_under_way_at_the_end_is_not_lost),
        T(test_a_large_message_waits_for_its_segment),
        T(test_a_large_message_waits_for_its_segment_where_others_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
