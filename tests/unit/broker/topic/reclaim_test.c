/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spared bytes when memory is short: 16 MiB in all, segments of 2 MiB.
 */
#include "broker/ingest/publisher.h"
#include "broker/memory/bufpool.h"
#include "broker/memory/maker.h"
#include "broker/memory/membudget.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static int setup(void **state)
{
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(h, 3, NULL);
    *state = h;
    return 0;
}

static int setup_kept(void **state)
{
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(
        h, 3,
        "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
        "topics = ( { match = \"kept.>\"; retain = { messages = 100; }; } );\n");
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

/* A publisher at worker 0, and at worker `at` a reader with credit for one message who holds nobody
 * back. */
static struct shard_client *open_slow_pair(struct shard_harness *h, uint32_t topic, unsigned at,
                                           struct shard_client **slow)
{
    struct shard_client *publisher = shard_client_create(h, 0, NULL);
    *slow = shard_client_create(h, at, NULL);
    client_open_pub(publisher, 0, topic, true);
    client_subscribe(
        *slow, 0, topic,
        &(struct amb_subscription_options){.slow = AMB_SLOW_DROP_OLDEST, .credit_msgs = 1});
    harness_settle(h);
    return publisher;
}

/* The shard's pool takes all there is in small pieces, and gives them back to itself. */
static void hog(struct amb_shard *shard)
{
    struct amb_buf bufs[256];
    unsigned count = 0;
    while (count < 256 &&
           amb_bufpool_alloc(&shard->memory.bufpool, 100 << 10, &bufs[count]) == AMB_OK) {
        count++;
    }
    while (count > 0) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[--count]);
    }
}

static void test_free_segments_of_its_own_go_first(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf buf;
    hog(&h->shards[0]);
    assert_int_equal(amb_bufpool_alloc(&h->shards[0].memory.bufpool, 5 * MIB, &buf), AMB_ENOMEM);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 5 * MIB, &buf),
                     AMB_OK);
    amb_bufpool_free(&h->shards[0].memory.bufpool, &buf);
}

static void test_free_segments_of_other_shards_come_with_the_next_attempt(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf buf;
    hog(&h->shards[2]);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 5 * MIB, &buf),
                     AMB_ENOMEM);
    harness_settle(h);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 5 * MIB, &buf),
                     AMB_OK);
    amb_bufpool_free(&h->shards[0].memory.bufpool, &buf);
}

/* To unmap them here would keep every client of this worker waiting. */
static void test_free_segments_that_a_lease_wants_are_unmapped_by_the_maker(void **state)
{
    struct shard_harness *h = *state;
    struct amb_shard *shard = &h->shards[0];
    struct amb_maker maker = {.is_stopping = true}; /* It runs when we say so. */
    assert_int_equal(amb_inbox_init(&maker.inbox, &maker), AMB_OK);
    bool is_coming = false;
    hog(shard);
    shard->memory.maker = &maker;
    uint64_t before = atomic_load(&h->budget.used);
    assert_false(amb_reclaim_lease(shard, 4 * MIB, &is_coming));
    assert_true(is_coming);
    assert_int_equal(atomic_load(&h->budget.used), before);
    assert_true(amb_inbox_run(&maker.inbox) > 1);
    assert_true(amb_reclaim_lease(shard, 4 * MIB, &is_coming));
    amb_membudget_end_lease(&h->budget, 4 * MIB);
    amb_membudget_give(&h->budget, 4 * MIB);
    shard->memory.maker = NULL;
    amb_inbox_fini(&maker.inbox);
}

static void test_others_are_not_asked_all_the_time(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8], buf;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(amb_bufpool_alloc(&h->shards[1].memory.bufpool, 2 * MIB, &held[i]),
                         AMB_OK);
    }
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 100, &buf),
                     AMB_ENOMEM);
    assert_true(h->shards[0].reclaim.relief[1].is_out && h->shards[0].reclaim.relief[2].is_out);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 100, &buf),
                     AMB_ENOMEM);
    harness_settle(h);
    assert_false(h->shards[0].reclaim.relief[1].is_out);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 100, &buf),
                     AMB_ENOMEM);
    assert_false(h->shards[0].reclaim.relief[1].is_out); /* too soon */
    harness_pass(h, AMB_RECLAIM_PAUSE_NS);
    (void)harness_turn(h, 0);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 100, &buf),
                     AMB_ENOMEM);
    assert_true(h->shards[0].reclaim.relief[1].is_out);
    harness_settle(h);
    for (unsigned i = 0; i < 8; i++) {
        amb_bufpool_free(&h->shards[1].memory.bufpool, &held[i]);
    }
}

/* The publisher's buffers lie in the log of a topic elsewhere, for a subscriber that does not read
 * and need not get them. */
static void test_what_slow_droppers_want_elsewhere_goes_too(void **state)
{
    struct shard_harness *h = *state;
    uint32_t topic = harness_topic(h, "a", 1);
    struct shard_client *slow, *p = open_slow_pair(h, topic, 2, &slow);
    unsigned waits = 0;
    for (unsigned i = 0; i < 400; i++) {
        if (!client_may_send(p, 0, 1, 60000)) {
            client_want(p, 0, p->pubs[0].bytes + client_batch_bytes(1, 60000));
            harness_settle(h);
        }
        while (!client_may_send(p, 0, 1, 60000)) {
            assert_true(++waits < 100);
            harness_pass(h, AMB_RECLAIM_PAUSE_NS);
            harness_settle(h);
        }
        client_send(p, 0, 1, 60000);
        harness_settle(h);
        assert_int_equal(p->settles[i].status, AMB_OK);
    }
    /* It waits now and then, but never for long: each time the others help. */
    client_drain(slow, 0);
    assert_int_equal(slow->subs[0].msgs + slow->subs[0].lost, 400);
}

/* Topics of worker 1 with one message each, that nobody waits for. Their ids begin at the first
 * one's. */
static uint32_t keep_a_little(struct shard_harness *h, unsigned topics, uint64_t len)
{
    struct shard_client *p = shard_client_create(h, 1, NULL);
    uint32_t first = 0;
    for (unsigned i = 0; i < topics; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "kept.%u", i);
        uint32_t topic = harness_topic(h, name, 1);
        first = i == 0 ? topic : first;
        client_open_pub(p, 0, topic, false);
        if (!client_may_send(p, 0, 1, len)) {
            client_want(p, 0, p->pubs[0].bytes + client_batch_bytes(1, len));
            harness_settle(h);
        }
        client_send(p, 0, 1, len);
        harness_settle(h);
        client_close_pub(p, 0);
        harness_settle(h);
        assert_int_equal(harness_home(h, topic)->log.msgs, 1);
    }
    shard_client_destroy(&h->clients[h->client_count - 1]);
    harness_settle(h);
    return first;
}

/* Worker 2 takes all that is left. Returns how many. */
static unsigned take_the_rest(struct shard_harness *h, struct amb_buf held[8])
{
    unsigned count = 0;
    amb_bufpool_trim(&h->shards[1].memory.bufpool, 0);
    while (count < 8 &&
           amb_bufpool_alloc(&h->shards[2].memory.bufpool, 2 * MIB, &held[count]) == AMB_OK) {
        count++;
    }
    assert_in_range(count, 1, 7);
    return count;
}

/* Worker 0 has no segment. Returns how often it had to ask. */
static unsigned ask_for_a_segment(struct shard_harness *h)
{
    struct amb_bufpool *pool = &h->shards[0].memory.bufpool;
    struct amb_buf buf;
    unsigned asked = 0;
    while (amb_reclaim_alloc(&h->shards[0], pool, 100, &buf) != AMB_OK) {
        assert_true(++asked < 100);
        harness_settle(h);
        harness_pass(h, AMB_RECLAIM_PAUSE_NS);
        (void)harness_turn(h, 0);
    }
    amb_bufpool_free(pool, &buf);
    return asked;
}

static void test_a_segment_comes_at_once_from_many_topics_that_keep_a_little(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    (void)keep_a_little(h, HARNESS_TOPICS_MAX, 1000);
    unsigned count = take_the_rest(h, held);
    assert_int_equal(ask_for_a_segment(h), 1);
    while (count > 0) {
        amb_bufpool_free(&h->shards[2].memory.bufpool, &held[--count]);
    }
}

static void test_what_is_given_for_a_segment_is_not_more_than_one(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    uint32_t first = keep_a_little(h, HARNESS_TOPICS_MAX, 400000);
    unsigned count = take_the_rest(h, held), left = 0;
    unsigned asked = ask_for_a_segment(h); /* One ask may give bytes of two segments. */
    assert_in_range(asked, 1, 2);
    for (unsigned i = 0; i < HARNESS_TOPICS_MAX; i++) {
        left += harness_home(h, first + i)->log.msgs == 1;
    }
    assert_in_range(left, HARNESS_TOPICS_MAX - asked * 6, HARNESS_TOPICS_MAX - 5);
    harness_forget(h);
    while (count > 0) {
        amb_bufpool_free(&h->shards[2].memory.bufpool, &held[--count]);
    }
}

/* Room that another shard keeps for windows nobody may ever use, twice what they are. */
static void test_who_waits_for_long_gets_what_others_only_might_need(void **state)
{
    struct shard_harness *h = *state;
    struct amb_bufpool *other = &h->shards[1].memory.bufpool;
    struct shard_client *p = shard_client_create(h, 0, NULL);
    hog(&h->shards[1]);
    amb_bufpool_reserve_anyway(other, 7 * MIB, 0);
    client_open_pub(p, 0, harness_topic(h, "t", 0), false);
    client_want(p, 0, client_batch_bytes(1, 100));
    harness_settle(h);
    assert_int_equal(p->pubs[0].window, 0);
    for (int64_t ns = 0; ns <= AMB_STARVING_NS + 2 * AMB_RECLAIM_PAUSE_NS;
         ns += AMB_RECLAIM_PAUSE_NS) {
        harness_pass(h, AMB_RECLAIM_PAUSE_NS);
        harness_settle(h);
    }
    assert_true(client_may_send(p, 0, 1, 100));
    assert_true(other->heap.room >= 7 * MIB / AMB_PAGE_SIZE); /* That is still theirs. */
    amb_bufpool_unreserve(other, 7 * MIB, 0);
}

/* A publisher that waits for memory asks again: a turn drops so many entries for it, and no
 * more. */
static void test_a_turn_sheds_so_much_for_those_that_wait(void **state)
{
    struct shard_harness *h = *state;
    struct amb_shard *shard = &h->shards[0];
    uint32_t topic = harness_topic(h, "a", 0);
    struct shard_client *slow, *p = open_slow_pair(h, topic, 0, &slow);
    for (unsigned i = 0; i < 40; i++) {
        client_send(p, 0, 1, 10000);
        harness_settle(h);
    }
    struct amb_buf bufs[2048];
    unsigned count = 0;
    while (count < 2048 &&
           amb_bufpool_alloc(&shard->memory.bufpool, 10000, &bufs[count]) == AMB_OK) {
        count++;
    }
    const struct amb_log *log = &harness_home(h, topic)->log;
    unsigned turns = 0;
    bool is_reserved = false;
    while (!is_reserved && turns < 40) {
        uint64_t before = log->lo;
        shard->reclaim.shed_budget = 5;
        shard->reclaim.shed_goes_on = false;
        is_reserved = amb_reclaim_reserve(shard, &shard->memory.bufpool, 200000, false);
        assert_in_range(log->lo - before, 0, 5);
        assert_true(is_reserved || shard->reclaim.shed_goes_on);
        turns++;
    }
    assert_in_range(turns, 3, 20);
    amb_bufpool_unreserve(&shard->memory.bufpool, 200000, 0);
    while (count > 0) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[--count]);
    }
    client_drain(slow, 0);
}

static void test_tiny_messages_are_refused_before_their_entries_fill_the_heap(void **state)
{
    struct shard_harness *h = *state;
    struct shard_client *c = shard_client_create(h, 0, NULL);
    struct amb_shard *shard = &h->shards[0];
    shard->entries.max = 100;
    uint32_t topic = harness_topic(h, "tiny", 0);
    struct shard_client *slow = shard_client_create(h, 0, NULL);
    client_subscribe(slow, 0, topic,
                     &(struct amb_subscription_options){
                         .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1});
    client_open_pub(c, 7, topic, false);
    for (unsigned i = 0; i < 200; i++) {
        client_send(c, 7, 1, 0);
        harness_settle(h);
    }
    assert_in_range(shard->entries.pool.used, 90, 102);
    assert_true(c->settle_count >= 90);
    assert_int_equal(c->settles[0].status, AMB_ENOMEM);
    client_drain(slow, 0);
    assert_int_equal(slow->subs[0].lost, 0);
    client_send(c, 7, 1, 0);
    harness_settle(h);
    client_drain(slow, 0);
    assert_int_equal(slow->subs[0].msgs + c->settle_count, 201);
}

static void test_who_wants_bytes_keeps_its_own_free_segments(void **state)
{
    struct amb_shard *shard = &((struct shard_harness *)*state)->shards[0];
    hog(shard);
    uint64_t bytes = shard->memory.bufpool.segment_bytes;
    assert_false(amb_reclaim_reserve(shard, &shard->memory.bufpool, 10 * MIB, true));
    assert_int_equal(shard->memory.bufpool.segment_bytes, bytes);
}

/* All there is, in pieces of 28 pages; a segment has 18 of them. */
static unsigned fill(struct amb_bufpool *pool, struct amb_buf *bufs, unsigned max)
{
    unsigned count = 0;
    while (count < max && amb_bufpool_alloc(pool, 100 << 10, &bufs[count]) == AMB_OK) {
        count++;
    }
    assert_in_range(count, 18, max - 1);
    return count;
}

static void test_the_only_room_for_a_wide_window_stays(void **state)
{
    struct amb_bufpool *pool = &((struct shard_harness *)*state)->shards[0].memory.bufpool;
    struct amb_buf bufs[256];
    unsigned count = fill(pool, bufs, 256);
    for (unsigned i = 0; i < count; i++) {
        if (bufs[i].segment == bufs[0].segment || i % 4 != 0) {
            amb_bufpool_free(pool, &bufs[i]);
        }
    }
    assert_true(amb_bufpool_reserve(pool, 100 << 10, true));
    uint64_t bytes = pool->segment_bytes;
    amb_bufpool_trim(pool, 0);
    assert_int_equal(pool->segment_bytes, bytes);
    amb_bufpool_unreserve(pool, 100 << 10, 100 << 10);
    assert_true(amb_bufpool_reserve(pool, 100 << 10, false));
    amb_bufpool_trim(pool, 0);
    assert_int_equal(pool->segment_bytes, bytes - 2 * MIB); /* Small ones have room elsewhere. */
    amb_bufpool_unreserve(pool, 100 << 10, 0);
    for (unsigned i = 4; i < count; i += 4) {
        if (bufs[i].segment != bufs[0].segment) {
            amb_bufpool_free(pool, &bufs[i]);
        }
    }
}

static void test_what_was_freed_is_put_together_before_memory_is_said_to_lack(void **state)
{
    struct amb_bufpool *pool = &((struct shard_harness *)*state)->shards[0].memory.bufpool;
    struct amb_buf bufs[256], larger;
    unsigned count = fill(pool, bufs, 256);
    for (unsigned i = 0; i < 18; i++) {
        assert_ptr_equal(bufs[i].segment, bufs[0].segment);
        amb_bufpool_free(pool, &bufs[i]);
    }
    assert_true(amb_bufpool_reserve(pool, 64 << 10, false));
    for (unsigned i = 0; i < 15; i++) {
        assert_int_equal(amb_bufpool_alloc(pool, 100 << 10, &bufs[i]), AMB_OK);
    }
    for (unsigned i = 0; i < 15; i++) {
        amb_bufpool_free(pool, &bufs[i]);
    }
    assert_int_equal(amb_bufpool_alloc(pool, 120 << 10, &larger), AMB_OK);
    amb_bufpool_free(pool, &larger);
    amb_bufpool_unreserve(pool, 64 << 10, 0);
    for (unsigned i = 18; i < count; i++) {
        amb_bufpool_free(pool, &bufs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_free_segments_of_its_own_go_first),
        T(test_free_segments_of_other_shards_come_with_the_next_attempt),
        T(test_free_segments_that_a_lease_wants_are_unmapped_by_the_maker),
        T(test_others_are_not_asked_all_the_time),
        T(test_what_slow_droppers_want_elsewhere_goes_too),
        cmocka_unit_test_setup_teardown(
            test_a_segment_comes_at_once_from_many_topics_that_keep_a_little, setup_kept, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_given_for_a_segment_is_not_more_than_one,
                                        setup_kept, teardown),
        T(test_who_waits_for_long_gets_what_others_only_might_need),
        T(test_a_turn_sheds_so_much_for_those_that_wait),
        T(test_tiny_messages_are_refused_before_their_entries_fill_the_heap),
        T(test_who_wants_bytes_keeps_its_own_free_segments),
        T(test_the_only_room_for_a_wide_window_stays),
        T(test_what_was_freed_is_put_together_before_memory_is_said_to_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
