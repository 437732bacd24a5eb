/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: what waits alone in its slab moves to a denser one, and reads as before.
 */
#include "broker/topic/compact.h"
#include "broker/topic/topic.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MESSAGES 1000u
#define RARE 20u /* one message in so many waits for long */
#define LEN 3000u

static const struct amb_subscription_options slow = {.slow = AMB_SLOW_DROP_OLDEST,
                                                     .credit_msgs = 1};

struct world {
    struct shard_harness h;
    uint32_t often, rarely;
    struct shard_client *publisher, *reader;
};

static struct world *begin(unsigned shards, unsigned home, bool may_map)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, shards, NULL);
    w->often = harness_topic(&w->h, "often", home);
    w->rarely = harness_topic(&w->h, "rarely", home);
    w->publisher = shard_client_create(&w->h, 0, NULL);
    w->reader = shard_client_create(
        &w->h, home, &(struct client_options){.may_map = may_map, .answers_offers = true});
    client_open_pub(w->publisher, 0, w->often, false);
    client_open_pub(w->publisher, 1, w->rarely, false);
    client_subscribe(w->reader, 0, w->often, &slow);
    client_subscribe(w->reader, 1, w->rarely, &slow);
    harness_settle(&w->h);
    return w;
}

static void end(struct world *w)
{
    harness_check(&w->h);
    harness_fini(&w->h);
    free(w);
}

/* Both logs fill, and one is read: the rest of the other is strewn over many slabs. */
static void strew(struct world *w)
{
    for (unsigned i = 1; i <= MESSAGES; i++) {
        client_send(w->publisher, i % RARE == 0 ? 1 : 0, 1, LEN);
        harness_settle(&w->h);
    }
    client_drain(w->reader, 0);
    assert_int_equal(w->reader->subs[0].lost, 0);
}

static void wait_for_compaction(struct world *w, unsigned shard)
{
    for (unsigned i = 0; i < 100; i++) {
        harness_pass(&w->h, 100 * AMB_NS_PER_MS);
        (void)harness_turn(&w->h, shard == 0 ? w->h.count - 1 : 0);
        (void)harness_turn(&w->h, shard);
    }
    harness_settle(&w->h);
}

/* Everything that waited comes, in order, with its own bytes. */
static void read_the_rest(struct world *w)
{
    client_drain(w->reader, 1);
    const struct client_sub *sub = &w->reader->subs[1];
    assert_int_equal(sub->msgs, MESSAGES / RARE);
    assert_int_equal(sub->lost, 0);
    for (uint64_t number = 1; number <= sub->last; number++) {
        assert_int_equal(client_delivery(w->reader, 1, number)->stamp.number, number);
    }
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_what_is_left_of_a_burst_moves_together(void **state)
{
    (void)state;
    struct world *w = begin(1, 0, false);
    strew(w);
    struct amb_shard *shard = &w->h.shards[0];
    uint32_t before = shard->memory.bufpool.sparse_slabs;
    uint64_t used = harness_used(&w->h), charged = harness_home(&w->h, w->rarely)->log.bytes;
    assert_true(before > MESSAGES / RARE / 2);
    wait_for_compaction(w, 0);
    assert_true(shard->memory.bufpool.sparse_slabs < AMB_COMPACT_SLABS_MIN);
    assert_true(amb_stat_get(&shard->stats->compacted) > 0);
    assert_true(amb_stat_get(&shard->stats->compacted) <= MESSAGES / RARE); /* once each */
    assert_int_equal(harness_used(&w->h), used);
    assert_int_equal(harness_home(&w->h, w->rarely)->log.bytes, charged);
    harness_check(&w->h);
    read_the_rest(w);
    end(w);
}

static void test_what_is_of_another_worker_moves_to_the_logs_own(void **state)
{
    (void)state;
    struct world *w = begin(2, 1, false);
    struct quota_user user;
    quota_user_init(&user);
    client_close_pub(w->publisher, 0);
    client_close_pub(w->publisher, 1);
    harness_settle(&w->h);
    quota_user_owns(&user, w->publisher->session);
    client_open_pub(w->publisher, 0, w->often, false);
    client_open_pub(w->publisher, 1, w->rarely, false);
    harness_settle(&w->h);
    strew(w);
    assert_true(w->h.shards[0].memory.bufpool.sparse_slabs > MESSAGES / RARE / 2);
    assert_int_equal(amb_bufpool_used(&w->h.shards[1].memory.bufpool), 0);
    wait_for_compaction(w, 1);
    /* One is on its way to the reader, and stays. */
    assert_true(w->h.shards[0].memory.bufpool.sparse_slabs < AMB_COMPACT_SLABS_MIN);
    assert_true(amb_bufpool_used(&w->h.shards[1].memory.bufpool) > 0);
    assert_true(amb_stat_get(&w->h.shards[1].stats->compacted) > 0);
    harness_check(&w->h);
    client_close(w->publisher, false); /* A copy is its user's, wherever it lies. */
    harness_settle(&w->h);
    assert_true(amb_account_used(user.account, AMB_QUOTA_HOST_BYTES) >= harness_used(&w->h));
    read_the_rest(w);
    quota_user_fini(&user);
    end(w);
}

static void test_what_a_client_has_mapped_stays_where_it_is(void **state)
{
    (void)state;
    struct world *w = begin(1, 0, true);
    client_subscribe(w->reader, 2, w->rarely, NULL); /* takes all of it, and keeps it */
    strew(w);
    wait_for_compaction(w, 0);
    /* The first one came by copy, while the reader mapped the segment. */
    assert_true(amb_stat_get(&w->h.shards[0].stats->compacted) <= 1);
    client_check_held(w->reader, 2);
    client_release_all(w->reader, 2);
    harness_settle(&w->h);
    wait_for_compaction(w, 0);
    assert_true(amb_stat_get(&w->h.shards[0].stats->compacted) > 1);
    read_the_rest(w);
    end(w);
}

static void test_what_is_young_does_not_move(void **state)
{
    (void)state;
    struct world *w = begin(1, 0, false);
    strew(w);
    harness_settle(&w->h);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->compacted), 0);
    read_the_rest(w);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_of_a_burst_moves_together),
        cmocka_unit_test(test_what_is_of_another_worker_moves_to_the_logs_own),
        cmocka_unit_test(test_what_a_client_has_mapped_stays_where_it_is),
        cmocka_unit_test(test_what_is_young_does_not_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
