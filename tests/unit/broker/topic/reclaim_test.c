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
        h, 4,
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

static void test_free_segments_of_its_own_go_first(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf buf;
    harness_hog(&h->shards[0]);
    assert_int_equal(amb_bufpool_alloc(&h->shards[0].memory.bufpool, 5 * MIB, &buf), AMB_ENOMEM);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 5 * MIB, &buf),
                     AMB_OK);
    amb_bufpool_free(&h->shards[0].memory.bufpool, &buf);
}

static void test_free_segments_of_other_shards_come_with_the_next_attempt(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf buf;
    harness_hog(&h->shards[2]);
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
    assert_int_equal(amb_maker_init(&maker), AMB_OK);
    bool is_coming = false;
    harness_hog(shard);
    shard->memory.maker = &maker;
    uint64_t before = atomic_load(&h->budget.used);
    assert_false(amb_reclaim_lease(shard, 4 * MIB, &is_coming));
    assert_true(is_coming);
    assert_int_equal(atomic_load(&h->budget.used), before);
    amb_maker_work(&maker);
    assert_true(amb_reclaim_lease(shard, 4 * MIB, &is_coming));
    amb_membudget_end_lease(&h->budget, 4 * MIB);
    amb_membudget_give(&h->budget, 4 * MIB);
    shard->memory.maker = NULL;
    amb_maker_stop(&maker);
}

static void test_others_are_not_asked_all_the_time(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8], buf;
    struct amb_bufpool *other = &h->shards[1].memory.bufpool;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(amb_bufpool_alloc(other, 2 * MIB, &held[i]), AMB_OK);
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
        amb_bufpool_free(other, &held[i]);
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

/* Topics of a worker with one message each, that nobody waits for. Their ids begin at the first
 * one's. */
static uint32_t keep_some_at(struct shard_harness *h, unsigned home, unsigned topics, uint64_t len)
{
    struct shard_client *p = shard_client_create(h, home, NULL);
    uint32_t first = 0;
    for (unsigned i = 0; i < topics; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "kept.%u.%u", home, i);
        uint32_t topic = harness_topic(h, name, home);
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
    amb_bufpool_trim(&h->shards[home].memory.bufpool, 0);
    return first;
}

static uint32_t keep_a_little(struct shard_harness *h, unsigned topics, uint64_t len)
{
    return keep_some_at(h, 1, topics, len);
}

/* Of topics that begin with the first one, those that still have their message. */
static unsigned count_kept(struct shard_harness *h, uint32_t first, unsigned topics)
{
    unsigned left = 0;
    for (unsigned i = 0; i < topics; i++) {
        left += harness_home(h, first + i)->log.msgs == 1;
    }
    return left;
}

/* Worker 2 takes all that is left. Returns how many. */
static unsigned take_the_rest(struct shard_harness *h, struct amb_buf held[8])
{
    unsigned count = 0;
    while (count < 8 &&
           amb_bufpool_alloc(&h->shards[2].memory.bufpool, 2 * MIB, &held[count]) == AMB_OK) {
        count++;
    }
    assert_in_range(count, 1, 8);
    return count;
}

static void give_the_rest(struct shard_harness *h, struct amb_buf held[8], unsigned count)
{
    while (count > 0) {
        amb_bufpool_free(&h->shards[2].memory.bufpool, &held[--count]);
    }
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
    give_the_rest(h, held, count);
}

static void test_one_need_costs_one_segment_of_many_topics(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    uint32_t first = keep_a_little(h, HARNESS_TOPICS_MAX, 400000);
    unsigned count = take_the_rest(h, held);
    unsigned asked = ask_for_a_segment(h); /* One ask may give bytes of two segments. */
    assert_in_range(asked, 1, 2);
    unsigned left = count_kept(h, first, HARNESS_TOPICS_MAX);
    assert_in_range(left, HARNESS_TOPICS_MAX - asked * 6, HARNESS_TOPICS_MAX - 5);
    harness_forget(h);
    give_the_rest(h, held, count);
}

/* The maker runs when a test says so, and stands for a thread of its own. */
struct late_maker {
    struct amb_maker maker;
    bool runs;
};

static struct late_maker late;
static unsigned unmapped_here, unmapped_there;

static void count_unmapped(struct amb_segment *segment)
{
    *(late.runs ? &unmapped_there : &unmapped_here) += 1;
    segment->destroy = NULL;
    amb_segment_destroy(&segment);
}

/* Of the workers `first` to `end`, whose topics give in the order of their messages: those of a
 * segment come together. */
static void late_maker_begin(struct shard_harness *h, unsigned first, unsigned end)
{
    late = (struct late_maker){.maker = {.is_stopping = true}};
    unmapped_here = unmapped_there = 0;
    assert_int_equal(amb_maker_init(&late.maker), AMB_OK);
    for (unsigned i = first; i < end; i++) {
        h->shards[i].memory.maker = &late.maker;
        h->shards[i].reclaim.relief_last = h->shards[i].topics.cells - 1;
        AMB_LIST_FOR_EACH (node, &h->shards[i].memory.bufpool.segments) {
            AMB_CONTAINER_OF(node, struct amb_segment, node)->destroy = count_unmapped;
        }
    }
}

static void late_maker_run(void)
{
    late.runs = true;
    amb_maker_work(&late.maker);
    late.runs = false;
}

static void late_maker_end(struct shard_harness *h)
{
    late_maker_run();
    for (unsigned i = 0; i < h->count; i++) {
        h->shards[i].memory.maker = NULL;
    }
    amb_maker_stop(&late.maker);
    harness_settle(h);
}

/* Worker 0 has nothing, and asks the others. */
static void ask_in_vain(struct shard_harness *h)
{
    struct amb_bufpool *pool = &h->shards[0].memory.bufpool;
    struct amb_buf buf;
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], pool, 100, &buf), AMB_ENOMEM);
}

/* The others answer, and worker 0 may ask again. */
static void hear_others(struct shard_harness *h)
{
    harness_settle(h);
    harness_pass(h, AMB_RECLAIM_PAUSE_NS);
    (void)harness_turn(h, 0);
}

static void ask_often(struct shard_harness *h, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        ask_in_vain(h);
        hear_others(h);
    }
}

/* To unmap a segment takes milliseconds, in which a worker would serve nobody. */
static void test_a_segment_for_another_shard_is_unmapped_by_the_maker(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    (void)keep_a_little(h, HARNESS_TOPICS_MAX, 400000);
    unsigned count = take_the_rest(h, held);
    late_maker_begin(h, 1, 2);
    uint64_t used = atomic_load(&h->budget.used);
    ask_often(h, 1);
    assert_int_equal(unmapped_here, 0);
    assert_int_equal(atomic_load(&h->budget.used), used);
    late_maker_run();
    assert_int_equal(unmapped_there, 1);
    assert_int_equal(unmapped_here, 0);
    assert_int_equal(atomic_load(&h->budget.used), used - 2 * MIB);
    late_maker_end(h);
    harness_forget(h);
    give_the_rest(h, held, count);
}

/* A segment that the maker has still to unmap is memory that is coming. */
static void test_one_need_costs_one_segment_however_late_it_is_unmapped(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8], buf;
    uint32_t first = keep_a_little(h, HARNESS_TOPICS_MAX, 400000);
    unsigned count = take_the_rest(h, held);
    late_maker_begin(h, 1, 2);
    ask_often(h, 1);
    unsigned left = count_kept(h, first, HARNESS_TOPICS_MAX);
    assert_in_range(left, HARNESS_TOPICS_MAX - 6, HARNESS_TOPICS_MAX - 5);
    ask_often(h, 20);
    assert_int_equal(count_kept(h, first, HARNESS_TOPICS_MAX), left);
    late_maker_run();
    (void)harness_turn(h, 0);
    assert_int_equal(atomic_load(&h->shards[0].reclaim.coming), 0);
    assert_int_equal(amb_reclaim_alloc(&h->shards[0], &h->shards[0].memory.bufpool, 100, &buf),
                     AMB_OK);
    amb_bufpool_free(&h->shards[0].memory.bufpool, &buf);
    assert_int_equal(unmapped_there, 1);
    late_maker_end(h);
    harness_forget(h);
    give_the_rest(h, held, count);
}

/* Shards are asked together. The later one sees that it is not needed. */
static void test_one_need_costs_one_segment_of_all_shards_together(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    uint32_t first = keep_some_at(h, 1, 4, 400000);
    uint32_t second = keep_some_at(h, 3, 4, 400000);
    unsigned count = take_the_rest(h, held);
    late_maker_begin(h, 1, 4);
    ask_often(h, 20);
    assert_int_equal(count_kept(h, first, 4), 0);
    assert_int_equal(count_kept(h, second, 4), 4);
    late_maker_end(h);
    assert_int_equal(unmapped_there, 1);
    harness_forget(h);
    give_the_rest(h, held, count);
}

/* Messages that come to worker 0 meanwhile are not given up for its need. */
static void test_messages_of_the_asker_stay_while_a_segment_is_coming(void **state)
{
    struct shard_harness *h = *state;
    struct amb_shard *shard = &h->shards[0];
    struct amb_buf held[8];
    uint32_t own = harness_topic(h, "kept.own", 0);
    (void)keep_a_little(h, 10, 400000);
    unsigned count = take_the_rest(h, held);
    late_maker_begin(h, 1, 2);
    ask_often(h, 1);
    struct shard_client *p = shard_client_create(h, 1, NULL);
    client_open_pub(p, 0, own, false);
    client_send(p, 0, 1, 0);
    harness_settle(h);
    assert_int_equal(harness_home(h, own)->log.msgs, 1);
    assert_false(amb_reclaim_reserve(shard, &shard->memory.bufpool, 100, false, NULL));
    assert_int_equal(harness_home(h, own)->log.msgs, 1);
    late_maker_end(h);
    assert_true(amb_reclaim_reserve(shard, &shard->memory.bufpool, 100, false, NULL));
    amb_bufpool_unreserve(&shard->memory.bufpool, 100, 0);
    harness_forget(h);
    give_the_rest(h, held, count);
}

/* No time passes, and nobody asks again: the maker's word is enough. */
static void test_a_publisher_that_waits_has_its_window_when_the_maker_is_done(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    (void)keep_a_little(h, HARNESS_TOPICS_MAX - 1, 400000);
    unsigned count = take_the_rest(h, held);
    late_maker_begin(h, 1, 2);
    struct shard_client *p = shard_client_create(h, 0, NULL);
    client_open_pub(p, 0, harness_topic(h, "t", 0), false);
    client_want(p, 0, client_batch_bytes(1, 100));
    harness_settle(h);
    assert_int_equal(unmapped_here, 0);
    assert_false(client_may_send(p, 0, 1, 100));
    late_maker_run();
    (void)harness_turn(h, 0);
    (void)shard_client_turn(p);
    assert_true(client_may_send(p, 0, 1, 100));
    late_maker_end(h);
    harness_forget(h);
    give_the_rest(h, held, count);
}

/* The maker is unmapping as much of the asker's own. */
static void test_a_lease_asks_nobody_while_the_maker_unmaps_enough(void **state)
{
    struct shard_harness *h = *state;
    bool is_coming = false;
    uint32_t first = keep_a_little(h, 5, 400000);
    harness_hog(&h->shards[0]);
    late_maker_begin(h, 0, 2);
    assert_false(amb_reclaim_lease(&h->shards[0], 4 * MIB, &is_coming));
    assert_true(is_coming);
    harness_settle(h);
    assert_int_equal(count_kept(h, first, 5), 5);
    late_maker_end(h);
    harness_forget(h);
}

/* Worker 2 has all memory, and worker `at` a table of a million topics that have gone, behind the
 * few that there are. */
static unsigned begin_many_cells(struct shard_harness *h, unsigned at, struct amb_buf held[8])
{
    assert_non_null(amb_shard_topic_cell(&h->shards[at], AMB_TOPIC_CELLS_MAX - 1));
    return take_the_rest(h, held);
}

#define CELLS_A_TURN (AMB_SHARD_SHED_TURN * 16)

static void test_a_turn_looks_at_so_many_empty_cells_for_another_shard(void **state)
{
    struct shard_harness *h = *state;
    struct amb_shard_reclaim *reclaim = &h->shards[1].reclaim;
    struct amb_buf held[8];
    uint32_t first = keep_a_little(h, 4, 400000);
    unsigned count = begin_many_cells(h, 1, held);
    reclaim->relief_last = first + 3; /* The walk goes all around before it finds them. */
    for (unsigned i = 0; i < AMB_TOPIC_CELLS_MAX / CELLS_A_TURN; i++) {
        uint32_t from = reclaim->relief_last;
        ask_in_vain(h);
        (void)harness_turn(h, 1);
        uint32_t passed = (reclaim->relief_last - from) & (AMB_TOPIC_CELLS_MAX - 1);
        assert_in_range(passed, CELLS_A_TURN / 2, CELLS_A_TURN + 16);
        hear_others(h);
    }
    assert_in_range(ask_for_a_segment(h), 0, 1);
    assert_int_equal(count_kept(h, first, 4), 0);
    give_the_rest(h, held, count);
}

/* Tries as a publisher does that waits for memory, in one turn after the other. Returns how many
 * that took until its worker's walk was over. */
static unsigned walk_all(struct shard_harness *h)
{
    struct amb_shard *shard = &h->shards[0];
    unsigned turns = 0;
    do {
        assert_true(++turns < 20);
        (void)harness_turn(h, 0);
        assert_false(amb_reclaim_reserve(shard, &shard->memory.bufpool, 100, false, NULL));
    } while (shard->reclaim.shed_goes_on);
    return turns;
}

static void test_a_turn_looks_at_so_many_empty_cells_for_its_publishers(void **state)
{
    struct shard_harness *h = *state;
    struct amb_buf held[8];
    (void)harness_topic(h, "t", 0);
    unsigned count = begin_many_cells(h, 0, held);
    assert_in_range(walk_all(h), 4, 5);
    give_the_rest(h, held, count);
}

#define PRIVATES 40000u

/* Shadows of nothing: one for each reader that replays or spills. */
static struct amb_topic *begin_privates(struct amb_topic *topic, unsigned count)
{
    struct amb_topic *shadows = calloc(count, sizeof(*shadows));
    assert_non_null(shadows);
    for (unsigned i = 0; i < count; i++) {
        shadows[i].shard = topic->shard;
        shadows[i].rule = topic->rule;
        amb_topic_privates_init(&shadows[i].privates);
        amb_list_push_back(&topic->privates.all, &shadows[i].privates.node);
    }
    return shadows;
}

static struct amb_topic *begin_many_privates(struct amb_topic *topic)
{
    return begin_privates(topic, PRIVATES);
}

static void end_privates(struct amb_topic *shadows, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        amb_list_remove(&shadows[i].privates.node);
    }
    free(shadows);
}

static void end_many_privates(struct amb_topic *shadows)
{
    end_privates(shadows, PRIVATES);
}

static unsigned count_looked(const struct amb_topic *shadows, uint64_t look)
{
    unsigned count = 0;
    for (unsigned i = 0; i < PRIVATES; i++) {
        count += shadows[i].privates.look == look;
    }
    return count;
}

static void test_a_turn_looks_at_so_many_private_shadows_for_its_publishers(void **state)
{
    struct shard_harness *h = *state;
    struct amb_shard *shard = &h->shards[0];
    struct amb_buf held[8];
    struct amb_topic *shadows = begin_many_privates(harness_home(h, harness_topic(h, "t", 0)));
    unsigned count = take_the_rest(h, held);
    assert_false(amb_reclaim_reserve(shard, &shard->memory.bufpool, 100, false, NULL));
    assert_true(shard->reclaim.shed_goes_on);
    assert_in_range(count_looked(shadows, shard->reclaim.shed_look), 16000, AMB_SHARD_SHED_TURN);
    assert_in_range(walk_all(h), 2, 3); /* Each is looked at once. */
    assert_int_equal(count_looked(shadows, shard->reclaim.looks), PRIVATES);
    end_many_privates(shadows);
    give_the_rest(h, held, count);
}

static void test_a_turn_looks_at_so_many_private_shadows_for_another_shard(void **state)
{
    struct shard_harness *h = *state;
    struct amb_shard_reclaim *reclaim = &h->shards[1].reclaim;
    struct amb_buf held[8];
    uint32_t first = harness_topic(h, "t", 1);
    struct amb_topic *shadows = begin_many_privates(harness_home(h, first));
    uint32_t kept = keep_a_little(h, 4, 400000);
    unsigned count = take_the_rest(h, held);
    reclaim->relief_last = h->shards[1].topics.cells - 1;
    ask_in_vain(h);
    (void)harness_turn(h, 1);
    assert_in_range(count_looked(shadows, reclaim->relief_look), 16000, AMB_SHARD_SHED_TURN);
    assert_int_equal(count_kept(h, kept, 4), 4);
    hear_others(h);
    assert_in_range(ask_for_a_segment(h), 1, 2); /* It went on where it had stopped. */
    assert_int_equal(count_kept(h, kept, 4), 0);
    end_many_privates(shadows);
    give_the_rest(h, held, count);
}

/* Worker 1 looks through the topic for its own publishers, in so many turns, and then for another
 * shard in one. Returns how many looks for the other shard that took until the topic was passed. */
static unsigned look_in_turn(struct shard_harness *h, uint32_t topic, unsigned turns,
                             uint32_t budget)
{
    struct amb_shard *shard = &h->shards[1];
    struct amb_shard_reclaim *reclaim = &shard->reclaim;
    unsigned asked = 0;
    reclaim->relief_last = topic - 1;
    do {
        for (unsigned i = 0; i < turns; i++) {
            reclaim->shed_budget = budget;
            reclaim->shed_at_ns = 0;
            assert_false(amb_reclaim_reserve(shard, &shard->memory.bufpool, 100, false, NULL));
        }
        ask_in_vain(h);
        reclaim->relief_budget = budget;
        (void)amb_inbox_run(&shard->inbox);
        hear_others(h);
        asked++;
    } while (reclaim->relief_look != 0 && asked < 50);
    return asked;
}

/* Each shadow goes to the end of one list, whichever look it was that came to it. */
static void test_a_look_at_private_shadows_ends_however_often_others_look_meanwhile(void **state)
{
    struct shard_harness *h = *state;
    enum {
        BUDGET = 100,
        MOST = 700
    };
    uint32_t topic = harness_topic(h, "t", 1);
    struct amb_buf held[8];
    unsigned count = take_the_rest(h, held);
    for (unsigned shadows = 50; shadows <= MOST; shadows += 50) {
        for (unsigned turns = 1; turns <= 3; turns++) {
            struct amb_topic *all = begin_privates(harness_home(h, topic), shadows);
            unsigned asked = look_in_turn(h, topic, turns, BUDGET);
            assert_in_range(asked, 1, shadows / BUDGET + 2);
            end_privates(all, shadows);
        }
    }
    give_the_rest(h, held, count);
}

/* Room that another shard keeps for windows nobody may ever use, twice what they are. */
static void test_a_publisher_that_waits_for_long_gets_room_that_others_only_might_need(void **state)
{
    struct shard_harness *h = *state;
    struct amb_bufpool *other = &h->shards[1].memory.bufpool;
    struct shard_client *p = shard_client_create(h, 0, NULL);
    harness_hog(&h->shards[1]);
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
        is_reserved = amb_reclaim_reserve(shard, &shard->memory.bufpool, 200000, false, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define KEPT(name) cmocka_unit_test_setup_teardown(name, setup_kept, teardown)
        T(test_free_segments_of_its_own_go_first),
        T(test_free_segments_of_other_shards_come_with_the_next_attempt),
        T(test_free_segments_that_a_lease_wants_are_unmapped_by_the_maker),
        T(test_others_are_not_asked_all_the_time),
        T(test_what_slow_droppers_want_elsewhere_goes_too),
        KEPT(test_a_segment_comes_at_once_from_many_topics_that_keep_a_little),
        KEPT(test_one_need_costs_one_segment_of_many_topics),
        KEPT(test_a_segment_for_another_shard_is_unmapped_by_the_maker),
        KEPT(test_one_need_costs_one_segment_however_late_it_is_unmapped),
        KEPT(test_one_need_costs_one_segment_of_all_shards_together),
        KEPT(test_messages_of_the_asker_stay_while_a_segment_is_coming),
        KEPT(test_a_publisher_that_waits_has_its_window_when_the_maker_is_done),
        KEPT(test_a_lease_asks_nobody_while_the_maker_unmaps_enough),
        KEPT(test_a_turn_looks_at_so_many_empty_cells_for_another_shard),
        KEPT(test_a_turn_looks_at_so_many_empty_cells_for_its_publishers),
        KEPT(test_a_turn_looks_at_so_many_private_shadows_for_its_publishers),
        KEPT(test_a_turn_looks_at_so_many_private_shadows_for_another_shard),
        KEPT(test_a_look_at_private_shadows_ends_however_often_others_look_meanwhile),
        T(test_a_publisher_that_waits_for_long_gets_room_that_others_only_might_need),
        T(test_a_turn_sheds_so_much_for_those_that_wait),
        T(test_tiny_messages_are_refused_before_their_entries_fill_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
