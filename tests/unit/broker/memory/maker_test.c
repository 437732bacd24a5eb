/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maker: segments are made and unmade on its thread, and come to the pool by mail. One shard,
 * turned by hand, beside a maker that runs.
 */
#include "broker/config/config.h"
#include "broker/memory/bufpool_check.h"
#include "broker/memory/maker.h"
#include "broker/memory/membudget.h"
#include "broker/memory/segment.h"
#include "broker/topic/reclaim.h"
#include "broker/worker/orders_lease.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"
#include "wire/base/numa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

struct world {
    struct shard_harness h;
    struct amb_maker maker;
    struct amb_shard *shard;
    struct amb_bufpool *pool;
};

/* The nodes that makers have asked for, in place of the system. */
static struct {
    int nodes[64];
    _Atomic unsigned count;
} asked;

static bool ask_for(int node)
{
    unsigned count = atomic_load(&asked.count);
    assert_true(count < sizeof(asked.nodes) / sizeof(asked.nodes[0]));
    asked.nodes[count] = node;
    atomic_store(&asked.count, count + 1);
    return true;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL); /* 16 MiB in segments of 2 MiB */
    atomic_store(&asked.count, 0);
    w->maker.prefer = ask_for;
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

static void test_a_pools_segment_lies_near_its_worker(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_EAGAIN);
    wait_for_segment(w, 0);
    int here = amb_numa_here(); /* The test turns the shard itself. */
    assert_int_equal(atomic_load(&asked.count), here == AMB_NUMA_ANY ? 0 : 1);
    if (here != AMB_NUMA_ANY) {
        assert_int_equal(asked.nodes[0], here);
    }
}

static void lease_answered(void *control, struct amb_order *order)
{
    const struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    (void)control;
    assert_int_equal(order->status, AMB_OK);
    (void)close(ask->fd);
    *(uint64_t *)order->context = ask->segment;
    amb_order_free(order);
}

/* Opens it and closes it: a client may have two alone. */
static void lease_near(struct world *w, struct shard_client *client, uint32_t node)
{
    uint64_t segment = 0;
    struct amb_order_lease *ask = amb_order_new(&amb_order_lease_open, lease_answered, &segment);
    assert_non_null(ask);
    ask->order.session =
        (struct amb_session_id){client->shard, (uint32_t)client->id, client->session->generation};
    ask->slot = 4096;
    ask->slots = 1;
    ask->node = node;
    amb_order_post(w->shard, &ask->order);
    while (segment == 0) {
        (void)sched_yield();
        harness_settle(&w->h);
    }
    client_lease_close(client, &(struct client_lease){.segment = segment});
}

/* Numbers are 1 + the node's. 0 is any, as is what no machine has. The pool may have a segment made
 * in between. */
static void test_a_lease_lies_near_its_publisher(void **state)
{
    struct world *w = *state;
    static const uint32_t said[] = {8, 8, 0, 10, AMB_NUMA_MAX, UINT32_MAX, 7, AMB_NUMA_MAX + 1};
    static const int expected[] = {7, AMB_NUMA_ANY, 9, AMB_NUMA_MAX - 1, AMB_NUMA_ANY,
                                   6, AMB_NUMA_ANY};
    struct shard_client *client =
        shard_client_create(&w->h, 0, &(struct client_options){.may_map = true});
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        lease_near(w, client, said[i]);
    }
    size_t found = 0, count = sizeof(expected) / sizeof(expected[0]);
    for (unsigned i = 0; i < atomic_load(&asked.count); i++) {
        if (found < count && asked.nodes[i] == expected[found]) {
            found++;
        } else if (asked.nodes[i] != 7) { /* once more, behind a pool's */
            assert_int_equal(asked.nodes[i], amb_numa_here());
        }
    }
    assert_int_equal(found, count);
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

static void test_a_segment_that_nobody_came_for_is_the_pools_after_a_turn(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    assert_false(w->shard->memory.has_fresh);
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_EAGAIN);
    wait_for_segment(w, 0);
    assert_true(w->shard->memory.has_fresh);
    assert_int_equal(w->pool->cached, 0);
    (void)harness_turn(&w->h, 0);
    assert_false(w->shard->memory.has_fresh);
    assert_null(w->pool->fresh);
    assert_int_equal(w->pool->cached, 1);
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

/* Without a thread: it works when a test says so. */
static int setup_by_hand(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL);
    assert_int_equal(amb_maker_init(&w->maker), AMB_OK);
    w->shard = &w->h.shards[0];
    w->shard->memory.maker = &w->maker;
    w->pool = &w->shard->memory.bufpool;
    *state = w;
    return 0;
}

static struct {
    struct world *world;
    struct amb_segment *segment; /* to be handed over while another one is made */
    unsigned unmapped;
    unsigned unmapped_before; /* ... when a segment was whole */
    bool is_done;
    unsigned heard;
} seen;

static void seen_begin(struct world *w)
{
    memset(&seen, 0, sizeof(seen));
    seen.world = w;
}

static void count_unmapped(struct amb_segment *segment)
{
    seen.unmapped++;
    segment->destroy = NULL;
    amb_segment_destroy(&segment);
}

/* The pool has as many segments of 2 MiB as there may be, all of them free. */
static void fill_pool(struct world *w)
{
    struct amb_buf bufs[8];
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(amb_bufpool_alloc(w->pool, 2 * MIB, &bufs[i]), AMB_OK);
        bufs[i].segment->destroy = count_unmapped;
    }
    w->pool->options.dedicated_cache = 8;
    for (unsigned i = 0; i < 8; i++) {
        amb_bufpool_free(w->pool, &bufs[i]);
    }
    assert_int_equal(atomic_load(&w->h.budget.used), w->h.budget.max);
}

static bool hand_over(int node)
{
    (void)node;
    if (seen.segment != NULL) {
        amb_maker_unmake(&seen.world->maker, &seen.world->h.budget, seen.segment);
        seen.segment = NULL;
    }
    return true;
}

static enum amb_status note_unmapped(void *arg, struct amb_segment *segment)
{
    (void)arg;
    (void)segment;
    seen.unmapped_before = seen.unmapped;
    return AMB_OK;
}

/* Relief for another worker is not to wait until a segment of a GiB is made. */
static void test_segments_that_go_go_before_one_is_made_and_between_its_parts(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    seen_begin(w);
    assert_int_equal(amb_segment_create(1, 2 * MIB, &seen.segment), AMB_OK);
    assert_true(amb_membudget_take(&w->h.budget, 2 * MIB));
    seen.segment->destroy = count_unmapped;
    w->maker.prefer = hand_over; /* When the making has begun. */
    w->maker.node = AMB_NUMA_MAX;
    w->pool->options.on_create = note_unmapped;
    assert_int_equal(amb_bufpool_prepare(w->pool), AMB_OK);
    AMB_CONTAINER_OF(w->pool->segments.next, struct amb_segment, node)->destroy = count_unmapped;
    assert_int_equal(amb_bufpool_alloc_later(w->pool, 5 * MIB, &buf), AMB_EAGAIN);
    amb_bufpool_trim_later(w->pool, 0);
    assert_int_equal(seen.unmapped, 0);
    amb_maker_work(&w->maker);
    assert_null(seen.segment);
    assert_int_equal(seen.unmapped, 2);
    assert_int_equal(seen.unmapped_before, 2);
}

static void hear(struct amb_mail *mail, void *owner)
{
    (void)mail;
    (void)owner;
    seen.heard = seen.unmapped;
}

static void test_a_mail_behind_segments_goes_when_they_are_unmapped(void **state)
{
    struct world *w = *state;
    struct amb_mail mail;
    struct amb_unmaking after = {.mail = &mail, .to = &w->shard->inbox, .fn = hear};
    seen_begin(w);
    fill_pool(w);
    amb_bufpool_trim_later(w->pool, 0);
    amb_maker_after(&w->maker, &after);
    for (unsigned i = 0; i < 7; i++) {
        assert_true(amb_maker_help(&w->maker));
        (void)amb_inbox_run(&w->shard->inbox);
        assert_int_equal(seen.unmapped, i + 1);
        assert_int_equal(seen.heard, 0);
    }
    amb_maker_work(&w->maker);
    (void)amb_inbox_run(&w->shard->inbox);
    assert_int_equal(seen.heard, 8);
    assert_false(amb_maker_help(&w->maker));
}

/* Such a batch is refused if it finds no place. Segments that the maker has still to unmap are
 * nobody's. Others wait for them. */
static void test_a_granted_batch_has_memory_that_waits_for_the_maker(void **state)
{
    struct world *w = *state;
    struct amb_buf buf;
    seen_begin(w);
    fill_pool(w);
    amb_bufpool_trim_later(w->pool, 0);
    assert_int_equal(amb_reclaim_alloc_some(w->shard, w->pool, 5 * MIB, NULL, &buf), AMB_ENOMEM);
    assert_int_equal(seen.unmapped, 0);
    assert_int_equal(amb_reclaim_alloc_granted(w->shard, w->pool, 5 * MIB, NULL, &buf), AMB_OK);
    assert_int_equal(seen.unmapped, 3); /* And no more than it needs. */
    amb_bufpool_free(w->pool, &buf);
}

/* Reserved room is in segments that do not go: such a batch needs none of the budget. */
static void test_a_granted_batch_within_what_is_reserved_needs_nothing_that_goes(void **state)
{
    struct world *w = *state;
    struct amb_buf bufs[16];
    unsigned count = 0;
    seen_begin(w);
    struct amb_buf all[160];
    while (count < 160 && amb_bufpool_alloc(w->pool, 100 << 10, &all[count]) == AMB_OK) {
        count++;
    }
    while (count > 0) {
        amb_bufpool_free(w->pool, &all[--count]);
    }
    assert_true(amb_bufpool_reserve(w->pool, MIB, false));
    amb_bufpool_trim_later(w->pool, 0);
    assert_in_range(w->pool->segment_bytes, 2 * MIB, 8 * MIB);
    assert_true(
        amb_membudget_take(&w->h.budget, w->h.budget.max - atomic_load(&w->h.budget.used)) ||
        atomic_load(&w->h.budget.used) == w->h.budget.max);
    uint32_t waiting = atomic_load(&w->maker.line.segments);
    assert_true(waiting > 0);
    for (count = 0; count < 16; count++) {
        assert_int_equal(amb_reclaim_alloc_granted(w->shard, w->pool, 64 << 10, NULL, &bufs[count]),
                         AMB_OK);
        amb_bufpool_unreserve(w->pool, 64 << 10, 0);
    }
    assert_int_equal(atomic_load(&w->maker.line.segments), waiting);
    while (count > 0) {
        amb_bufpool_free(w->pool, &bufs[--count]);
    }
}

static _Atomic bool has_begun, has_ended;

static void unmap_slowly(struct amb_segment *segment)
{
    atomic_store(&has_begun, true);
    for (unsigned i = 0; i < 10000; i++) {
        (void)sched_yield();
    }
    segment->destroy = NULL;
    amb_segment_destroy(&segment);
    atomic_store(&has_ended, true);
}

static void test_a_worker_that_cannot_wait_waits_for_the_one_that_is_being_unmapped(void **state)
{
    struct world *w = *state;
    atomic_store(&has_begun, false);
    atomic_store(&has_ended, false);
    assert_int_equal(amb_bufpool_prepare(w->pool), AMB_OK);
    AMB_CONTAINER_OF(w->pool->segments.next, struct amb_segment, node)->destroy = unmap_slowly;
    amb_bufpool_trim_later(w->pool, 0);
    while (!atomic_load(&has_begun)) {
        (void)sched_yield();
    }
    assert_true(amb_maker_help(&w->maker));
    assert_true(atomic_load(&has_ended));
    assert_int_equal(atomic_load(&w->h.budget.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_who_can_wait_gets_a_segment_of_its_own_later),
        T(test_a_pools_segment_lies_near_its_worker),
        T(test_a_lease_lies_near_its_publisher),
        T(test_a_segment_that_was_made_for_somebody_waits_for_him),
        T(test_a_segment_that_nobody_came_for_is_the_pools_after_a_turn),
        T(test_more_than_there_is_is_refused_at_once),
        T(test_a_spare_is_made_before_it_is_needed),
        T(test_the_last_quarter_of_memory_is_not_for_spares),
        T(test_a_segment_that_nobody_needs_goes_elsewhere),
        T(test_what_is_under_way_at_the_end_is_not_lost),
        T(test_a_large_message_waits_for_its_segment),
        T(test_a_large_message_waits_for_its_segment_where_others_are_dropped),
        T(test_a_worker_that_cannot_wait_waits_for_the_one_that_is_being_unmapped),
#define BY_HAND(name) cmocka_unit_test_setup_teardown(name, setup_by_hand, teardown)
        BY_HAND(test_segments_that_go_go_before_one_is_made_and_between_its_parts),
        BY_HAND(test_a_mail_behind_segments_goes_when_they_are_unmapped),
        BY_HAND(test_a_granted_batch_has_memory_that_waits_for_the_maker),
        BY_HAND(test_a_granted_batch_within_what_is_reserved_needs_nothing_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
