/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwarding: a publisher on shard 0, topics at home on shard 1, subscribers on 1, 2 and 3.
 */
#include "broker/config/config.h"
#include "broker/delivery/advance.h"
#include "broker/delivery/forward.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "limits = { max_mapped_per_session = 28000; };\n"
    "topics = ( { match = \"drop\"; full = \"drop-oldest\"; max_messages = 10; },\n"
    "           { match = \"reject\"; full = \"reject\"; max_messages = 10; },\n"
    "           { match = \"block\"; max_messages = 10; } );\n";

struct world {
    struct shard_harness h;
    struct shard_client *p, *near, *far, *farther;
    uint64_t expected; /* of the message check */
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 4, rules);
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    w->p = shard_client_create(&w->h, 0, NULL);
    w->near = shard_client_create(&w->h, 1, &maps);
    w->far = shard_client_create(&w->h, 2, &maps);
    w->farther = shard_client_create(&w->h, 3, NULL);
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

static uint32_t topic_at(struct world *w, const char *name)
{
    uint32_t topic = harness_topic(&w->h, name, 1);
    client_open_pub(w->p, 0, topic, false);
    return topic;
}

static void subscribe_all(struct world *w, uint32_t topic,
                          const struct amb_subscription_options *options)
{
    client_subscribe(w->near, 0, topic, options);
    client_subscribe(w->far, 0, topic, options);
    client_subscribe(w->farther, 0, topic, options);
    harness_settle(&w->h);
}

static void publish(struct world *w, unsigned batches, uint32_t count, uint64_t len)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, count, len);
        harness_settle(&w->h);
    }
}

static void drain_all(struct world *w)
{
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    client_drain(w->farther, 0);
    client_drain(w->near, 0);
}

static void check_number(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                         const struct client_stamp *stamp)
{
    uint64_t *last = client->user;
    assert_int_equal(stamp->number, *last + 1);
    assert_int_equal(frame->seq + index, stamp->number);
    *last = stamp->number;
}

static void test_every_subscriber_everywhere_gets_every_message_in_order(void **state)
{
    struct world *w = *state;
    uint64_t last[3] = {0};
    struct shard_client *all[3] = {w->near, w->far, w->farther};
    uint32_t topic = topic_at(w, "a");
    subscribe_all(w, topic, NULL);
    for (unsigned i = 0; i < 3; i++) {
        all[i]->on_message = check_number;
        all[i]->user = &last[i];
    }
    for (unsigned i = 0; i < 50; i++) {
        publish(w, 1, 1 + i % 7, 16 + 100 * (i % 5));
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(last[i], w->p->pubs[0].messages);
        assert_int_equal(all[i]->subs[0].lost, 0);
    }
    assert_true(harness_used(&w->h) > 0); /* near and far hold some in place */
    drain_all(w);
    assert_int_equal(harness_used(&w->h), 0);
    harness_check(&w->h);
}

/* Requests and replies: a reader that maps sees whole segments, so these are in others. */
static void test_what_is_private_leaves_by_copy_from_memory_that_is_never_offered(void **state)
{
    struct world *w = *state;
    w->p->group = &amb_trust_group_private;
    uint32_t topic = topic_at(w, "a");
    subscribe_all(w, topic, NULL);
    publish(w, 3, 2, 100);
    publish(w, 3, 1, 9000);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(amb_bufpool_used(&w->h.shards[i].memory.bufpool), 0);
    }
    for (unsigned i = 1; i <= 6; i++) {
        assert_int_equal(client_delivery(w->near, 0, i)->frame.type, AMB_FRAME_DELIVER);
        assert_int_equal(client_delivery(w->far, 0, i)->frame.type, AMB_FRAME_DELIVER);
    }
    assert_int_equal(w->near->segment_count, 0);
    assert_int_equal(w->far->segment_count, 0);
    assert_true(w->h.shards[0].memory.private_pool.segment_bytes > 0);
    drain_all(w);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_the_heads_of_deliveries_tell_what_they_should(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    client_subscribe(w->far, 3, topic, NULL);
    harness_settle(&w->h);
    publish(w, 2, 2, 40);
    const struct amb_frame *frame = &client_delivery(w->far, 3, 2)->frame;
    assert_int_equal(frame->handle, 3);
    assert_int_equal(frame->topic, topic);
    assert_int_equal(frame->count, 2);
    assert_int_equal(frame->first, 0);
    assert_int_equal(frame->data_len, 96);
    assert_int_equal(frame->meta_len, 32);
    assert_int_equal(frame->seq, 3);
    assert_int_equal(frame->number, 2);
    assert_int_equal(frame->lost, 0);
    assert_int_equal(frame->status, AMB_LOSS_NONE);
    assert_true(frame->time_ns > INT64_C(1700000000000000000));
    client_drain(w->far, 3);
}

static void test_a_subscription_may_read_several_topics(void **state)
{
    struct world *w = *state;
    uint32_t a = topic_at(w, "a"), b = harness_topic(&w->h, "b", 2);
    client_open_pub(w->p, 1, b, false);
    client_subscribe(w->far, 0, a, NULL);
    client_attach(w->far, 0, b);
    harness_settle(&w->h);
    client_send(w->p, 0, 1, 16);
    client_send(w->p, 1, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->far->subs[0].last, 2);
    assert_true(w->far->subs[0].is_named[a] && w->far->subs[0].is_named[b]);
    client_drain(w->far, 0);
}

static void test_what_was_published_before_is_not_delivered(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    subscribe_all(w, topic, NULL);
    publish(w, 3, 1, 16);
    client_subscribe(w->far, 1, topic, NULL);
    harness_settle(&w->h);
    publish(w, 1, 1, 16);
    assert_int_equal(w->far->subs[1].last, 1);
    assert_int_equal(client_delivery(w->far, 1, 1)->frame.seq, 4);
    assert_int_equal(w->far->subs[1].lost, 0);
    drain_all(w);
    client_drain(w->far, 1);
}

static void test_who_comes_back_lost_nothing_while_away(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    client_subscribe(w->far, 0, topic, NULL);
    harness_settle(&w->h);
    publish(w, 2, 1, 16);
    client_drain(w->far, 0);
    client_unsubscribe(w->far, 0);
    harness_settle(&w->h);
    publish(w, 5, 1, 16);
    client_subscribe(w->far, 0, topic, NULL);
    harness_settle(&w->h);
    publish(w, 1, 1, 16);
    assert_int_equal(w->far->subs[0].last, 3); /* deliveries are counted by handle */
    assert_int_equal(client_delivery(w->far, 0, 3)->frame.seq, 8);
    assert_int_equal(w->far->subs[0].lost, 0);
    client_drain(w->far, 0);
}

static void expect_losses(struct world *w, struct shard_client *client, enum amb_loss why)
{
    const struct client_sub *sub = &client->subs[0];
    assert_int_equal(sub->msgs + sub->lost, w->p->pubs[0].messages);
    assert_true(sub->lost > 0);
    uint64_t expected = 1;
    for (uint64_t i = 1; i <= sub->last; i++) {
        const struct amb_frame *frame = &client_delivery(client, 0, i)->frame;
        assert_int_equal(frame->seq, expected + frame->lost);
        assert_int_equal(frame->status, frame->lost == 0 ? AMB_LOSS_NONE : why);
        expected = frame->seq + frame->count;
    }
}

static void test_a_slow_dropper_loses_the_oldest_and_is_told_how_many(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "block");
    subscribe_all(
        w, topic,
        &(struct amb_subscription_options){.slow = AMB_SLOW_DROP_OLDEST, .credit_msgs = 2});
    publish(w, 40, 2, 16);
    assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes); /* not held back */
    drain_all(w);
    expect_losses(w, w->near, AMB_LOSS_SLOW);
    expect_losses(w, w->far, AMB_LOSS_SLOW);
    expect_losses(w, w->farther, AMB_LOSS_SLOW);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_full_dropping_topic_trims_those_that_block_too(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "drop");
    subscribe_all(w, topic,
                  &(struct amb_subscription_options){.slow = AMB_SLOW_BLOCK, .credit_msgs = 1});
    publish(w, 60, 1, 16);
    drain_all(w);
    expect_losses(w, w->near, AMB_LOSS_TRIMMED);
    expect_losses(w, w->far, AMB_LOSS_TRIMMED);
}

static void test_what_home_has_taken_its_shadows_do_not_refuse(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "reject");
    client_subscribe(w->far, 0, topic,
                     &(struct amb_subscription_options){
                         .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1});
    harness_settle(&w->h);
    publish(w, 60, 1, 16);
    client_drain(w->far, 0);
    assert_int_equal(w->far->subs[0].lost, 0);
    assert_int_equal(w->far->subs[0].msgs + w->p->settle_count, 60);
}

static void test_a_reader_that_blocks_loses_nothing_however_slow(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    struct amb_subscription_options options = {
        .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1};
    client_subscribe(w->far, 0, topic, &options);
    client_subscribe(w->farther, 0, topic, NULL);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 400; i++) {
        if (client_may_send(w->p, 0, 1, 20000)) {
            client_send(w->p, 0, 1, 20000);
        }
        client_release_all(w->farther, 0);
        harness_settle(&w->h);
        harness_pass(&w->h, AMB_NS_PER_SEC);
    }
    assert_false(client_may_send(w->p, 0, 1, 20000)); /* its publisher waits */
    uint64_t bytes = client_batch_bytes(1, 20000);
    /* 1 MiB lent, 1 MiB at home, the window, and one entry for each. */
    assert_true(w->p->pubs[0].bytes <= 2 * AMB_TOPIC_DEPTH + (2 << 20) + 4 * bytes);
    client_drain(w->far, 0);
    client_drain(w->farther, 0);
    assert_int_equal(w->far->subs[0].lost, 0);
    assert_int_equal(w->far->subs[0].msgs, w->p->pubs[0].messages);
    assert_true(client_may_send(w->p, 0, 1, 20000));
}

/* Publishes until the window is used up. */
static void fill(struct world *w)
{
    while (client_may_send(w->p, 0, 1, 20000)) {
        client_send(w->p, 0, 1, 20000);
        harness_settle(&w->h);
        assert_true(w->p->pubs[0].batches < 1000);
    }
}

static void test_blocking_has_a_limit_of_time_without_any_progress(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    struct amb_subscription_options options = {
        .slow = AMB_SLOW_BLOCK, .slow_block_ns = 100 * AMB_NS_PER_MS, .credit_msgs = 1};
    client_subscribe(w->near, 0, topic, &options);
    client_subscribe(w->far, 0, topic, &options);
    harness_settle(&w->h);
    fill(w);
    /* A message now and then is progress. */
    for (unsigned i = 0; i < 10; i++) {
        harness_pass(&w->h, 60 * AMB_NS_PER_MS);
        client_release_all(w->near, 0);
        client_release_all(w->far, 0);
        harness_settle(&w->h);
        fill(w);
    }
    assert_int_equal(w->near->subs[0].lost + w->far->subs[0].lost, 0);
    assert_false(client_may_send(w->p, 0, 1, 20000));
    /* None is not. */
    harness_pass(&w->h, 101 * AMB_NS_PER_MS);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(client_may_send(w->p, 0, 1, 20000));
        publish(w, 1, 1, 20000);
    }
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    assert_int_equal(w->near->subs[0].msgs + w->near->subs[0].lost, w->p->pubs[0].messages);
    assert_int_equal(w->far->subs[0].msgs + w->far->subs[0].lost, w->p->pubs[0].messages);
    /* Having caught up, they hold again. */
    fill(w);
    assert_false(client_may_send(w->p, 0, 1, 20000));
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_a_client_maps_no_more_than_its_limit(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    client_subscribe(w->near, 0, topic, NULL);
    publish(w, 1, 1, 16);
    client_drain(w->near, 0);
    publish(w, 4, 1, 6000);
    assert_int_equal(client_delivery(w->near, 0, 2)->frame.type, AMB_FRAME_MAP);
    assert_int_equal(client_delivery(w->near, 0, 4)->frame.type, AMB_FRAME_MAP);
    assert_int_equal(client_delivery(w->near, 0, 5)->frame.type, AMB_FRAME_DELIVER);
    client_drain(w->near, 0);
    publish(w, 1, 1, 6000);
    assert_int_equal(client_delivery(w->near, 0, 6)->frame.type, AMB_FRAME_MAP);
    client_drain(w->near, 0);
    /* Small ones too: the count is of the bytes that they keep from others. */
    publish(w, 200, 1, 0);
    assert_int_equal(w->near->subs[0].last, 206);
    assert_int_equal(client_delivery(w->near, 0, 206)->frame.type, AMB_FRAME_DELIVER);
    assert_in_range(w->near->session->mapped_bytes, 14000, 28000);
    client_drain(w->near, 0);
}

/* With any configuration: the reader alone shall not hold all memory. */
static void test_a_client_maps_at_most_half_of_host_memory(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    struct amb_session *session = w->near->session;
    client_subscribe(w->near, 0, topic, NULL);
    assert_int_equal(session->mapped_host_max, session->shard->config->memory.host.size / 2);
    session->mapped_max = UINT64_MAX;
    session->mapped_host_max = 14000;
    publish(w, 1, 1, 16);
    client_drain(w->near, 0);
    publish(w, 3, 1, 6000);
    assert_int_equal(client_delivery(w->near, 0, 2)->frame.type, AMB_FRAME_MAP);
    assert_int_equal(client_delivery(w->near, 0, 4)->frame.type, AMB_FRAME_DELIVER);
    assert_int_equal(session->mapped_host_bytes, session->mapped_bytes);
    client_drain(w->near, 0);
    assert_int_equal(session->mapped_host_bytes, 0);
    publish(w, 1, 1, 6000);
    assert_int_equal(client_delivery(w->near, 0, 5)->frame.type, AMB_FRAME_MAP);
    client_drain(w->near, 0);
}

static void test_a_shadow_with_its_subscriber_gone_lets_go(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    client_subscribe(w->far, 0, topic, &(struct amb_subscription_options){.credit_msgs = 1});
    harness_settle(&w->h);
    fill(w);
    client_close(w->far, false);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
    assert_true(client_may_send(w->p, 0, 1, 20000));
}

/* Hands shard 1 that many batches of one message without turning it. */
static void hand_over(struct world *w, uint32_t handle, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        assert_true(client_may_send(w->p, handle, 1, 0));
        client_send(w->p, handle, 1, 0);
    }
    for (unsigned i = 0; i <= batches / 8; i++) {
        (void)shard_client_turn(w->p);
        (void)harness_turn(&w->h, 0);
    }
}

/* A link of the harness takes 64 frames between two turns, so it takes many clients. */
static void test_a_turn_ends_however_much_its_readers_would_take(void **state)
{
    enum {
        TAKERS = 200,
        BATCHES = 60
    };
    struct world *w = *state;
    struct shard_client *takers[TAKERS];
    uint32_t topic = topic_at(w, "a");
    uint32_t other = harness_topic(&w->h, "other", 1);
    client_open_pub(w->p, 1, other, false);
    for (unsigned i = 0; i < TAKERS; i++) {
        takers[i] = shard_client_create(&w->h, 1, NULL);
        client_subscribe(takers[i], 0, topic, NULL);
    }
    client_subscribe(w->near, 0, other, NULL);
    harness_settle(&w->h);
    const _Atomic uint64_t *out = &w->h.shards[1].stats->batches_out;
    hand_over(w, 0, BATCHES);
    hand_over(w, 1, 1);
    (void)harness_turn(&w->h, 1);
    assert_in_range(amb_stat_get(out), AMB_FORWARD_TURN / 2, AMB_FORWARD_TURN + BATCHES);
    assert_int_equal(w->near->session->msgs_out, 1); /* It has had its slice. */
    harness_settle(&w->h);
    for (unsigned i = 0; i < TAKERS; i++) {
        assert_int_equal(takers[i]->subs[0].msgs, BATCHES);
        assert_int_equal(takers[i]->subs[0].lost, 0);
        client_release_all(takers[i], 0);
    }
    client_drain(w->near, 0);
    harness_check(&w->h);
}

/* The part of a turn's looks that settling a topic takes that fall_behind has filled. */
#define SETTLED (2 * AMB_FORWARD_TURN / 32 + 2)

/* A subscription without credit that has more than a turn's looks of cursors in the topic. */
static void fall_behind(struct world *w, uint32_t id)
{
    struct amb_topic *topic = harness_home(&w->h, id);
    struct amb_subscription *sub = amb_session_subscription(w->near->session, 0);
    for (unsigned i = 0; i < 2 * AMB_FORWARD_TURN; i++) {
        struct amb_begun begun;
        amb_begin_find(topic, NULL, &begun);
        assert_int_equal(amb_subscription_attach(sub, topic, &begun), AMB_OK);
    }
}

static void test_no_priority_stops_the_topics_of_others(void **state)
{
    struct world *w = *state;
    uint32_t ids[AMB_PRIORITIES], others[AMB_PRIORITIES];
    static const char *const names[][2] = {{"h", "g"}, {"n", "m"}, {"l", "k"}};
    static const enum amb_priority priorities[] = {AMB_PRIORITY_HIGH, AMB_PRIORITY_NORMAL,
                                                   AMB_PRIORITY_LOW};
    const struct amb_subscription_options slow = {.credit_msgs = 1, .slow = AMB_SLOW_DROP_OLDEST};
    struct shard_client *reader = shard_client_create(&w->h, 1, NULL);
    for (unsigned i = 0; i < AMB_PRIORITIES; i++) {
        ids[i] = harness_topic(&w->h, names[i][0], 1);
        others[i] = harness_topic(&w->h, names[i][1], 1);
        amb_topic_set_priority(harness_home(&w->h, ids[i]), priorities[i]);
        amb_topic_set_priority(harness_home(&w->h, others[i]), priorities[i]);
        client_open_pub(w->p, i, others[i], false);
        client_subscribe(reader, i, others[i], NULL);
    }
    client_subscribe(w->near, 0, ids[0], &slow);
    for (unsigned i = 0; i < AMB_PRIORITIES; i++) {
        fall_behind(w, ids[i]);
    }
    harness_settle(&w->h);
    for (unsigned i = 0; i < AMB_PRIORITIES; i++) {
        hand_over(w, i, 1);
    }
    const unsigned turns = 4; /* The first ones end in the middle of a slow topic. */
    for (unsigned i = 0; i < turns; i++) {
        for (unsigned j = 0; j < AMB_PRIORITIES; j++) {
            amb_topic_mark(harness_home(&w->h, ids[j])); /* As by a message. */
        }
        (void)harness_turn(&w->h, 1);
        assert_in_range(w->h.shards[1].forward.looks, AMB_FORWARD_TURN - 10,
                        AMB_FORWARD_TURN + AMB_PRIORITIES * SETTLED);
    }
    assert_int_equal(reader->session->msgs_out, AMB_PRIORITIES);
    harness_forget(&w->h);
}

static void test_a_walk_that_takes_several_turns_has_an_end(void **state)
{
    struct world *w = *state;
    uint32_t id = topic_at(w, "a");
    client_subscribe(w->near, 0, id, &(struct amb_subscription_options){.credit_msgs = 1});
    fall_behind(w, id);
    harness_settle(&w->h);
    publish(w, 1, 1, 0); /* Settled: nothing is marked, although all but one reader wait. */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(harness_turn(&w->h, 1), 0);
    }
    assert_int_equal(w->near->subs[0].msgs, 1);
    harness_forget(&w->h);
}

/* Only its session could move such a reader, so nobody looks at it for each message. */
static void test_who_waits_for_credit_is_not_looked_at(void **state)
{
    struct world *w = *state;
    uint32_t id = topic_at(w, "a");
    client_subscribe(
        w->near, 0, id,
        &(struct amb_subscription_options){.credit_msgs = 1, .slow = AMB_SLOW_DROP_OLDEST});
    struct shard_client *other = shard_client_create(&w->h, 1, NULL);
    client_subscribe(other, 0, id, NULL);
    fall_behind(w, id);
    publish(w, 1, 1, 0);
    harness_settle(&w->h);
    hand_over(w, 0, 1);
    (void)harness_turn(&w->h, 1);
    assert_in_range(w->h.shards[1].forward.looks, 1, SETTLED + 10);
    harness_settle(&w->h);
    assert_int_equal(other->subs[0].msgs, 2);
    client_release_all(w->near, 0); /* It goes on where it was. */
    harness_settle(&w->h);
    assert_int_equal(w->near->subs[0].msgs, 2);
    harness_forget(&w->h);
}

/* Of whoever is new, or has been behind, there may be thousands. */
static void test_who_keeps_up_does_not_wait_for_those_that_are_behind(void **state)
{
    struct world *w = *state;
    uint32_t id = topic_at(w, "a");
    client_subscribe(
        w->near, 0, id,
        &(struct amb_subscription_options){.credit_msgs = 1, .slow = AMB_SLOW_DROP_OLDEST});
    fall_behind(w, id);
    struct shard_client *other = shard_client_create(&w->h, 1, NULL);
    client_subscribe(other, 0, id, NULL);
    publish(w, 1, 1, 0);
    harness_settle(&w->h);
    assert_int_equal(other->subs[0].msgs, 1);
    client_release_all(w->near, 0); /* All others are there again. */
    (void)shard_client_turn(w->near);
    for (unsigned i = 2; i <= 3; i++) { /* The first turn ends in the middle of them. */
        hand_over(w, 0, 1);
        (void)harness_turn(&w->h, 1);
        assert_int_equal(other->session->msgs_out, i);
    }
    harness_forget(&w->h);
}

static void test_one_reader_leaves_out_so_many_entries_in_a_walk(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    const struct amb_subscription_options options = {.slow = AMB_SLOW_DROP_NEWEST,
                                                     .credit_msgs = 1};
    client_subscribe(w->near, 0, topic, &options);
    harness_settle(&w->h);
    const struct amb_cursor *cursor = AMB_CONTAINER_OF(
        amb_session_subscription(w->near->session, 0)->cursors.next, struct amb_cursor, of_sub);
    hand_over(w, 0, AMB_ADVANCE_RUN + 100);
    (void)harness_turn(&w->h, 1);
    assert_int_equal(cursor->position, AMB_ADVANCE_RUN);
    harness_settle(&w->h);
    assert_int_equal(cursor->position, AMB_ADVANCE_RUN + 100);
    client_drain(w->near, 0);
}

static void test_counters_count_what_goes_out(void **state)
{
    struct world *w = *state;
    uint32_t topic = topic_at(w, "a");
    client_subscribe(w->farther, 0, topic, NULL);
    harness_settle(&w->h);
    publish(w, 3, 2, 100);
    const struct amb_shard_stats *stats = w->h.shards[3].stats;
    assert_int_equal(amb_stat_get(&stats->msgs_out), 6);
    assert_int_equal(amb_stat_get(&stats->batches_out), 3);
    assert_int_equal(amb_stat_get(&stats->bytes_out), 3 * client_batch_bytes(2, 100));
    assert_int_equal(amb_stat_get(&stats->copies), 3);
    assert_int_equal(amb_stat_get(&stats->maps), 0);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->msgs_in), 6);
    client_drain(w->farther, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_every_subscriber_everywhere_gets_every_message_in_order),
        T(test_what_is_private_leaves_by_copy_from_memory_that_is_never_offered),
        T(test_the_heads_of_deliveries_tell_what_they_should),
        T(test_a_subscription_may_read_several_topics),
        T(test_what_was_published_before_is_not_delivered),
        T(test_who_comes_back_lost_nothing_while_away),
        T(test_a_slow_dropper_loses_the_oldest_and_is_told_how_many),
        T(test_a_full_dropping_topic_trims_those_that_block_too),
        T(test_what_home_has_taken_its_shadows_do_not_refuse),
        T(test_a_reader_that_blocks_loses_nothing_however_slow),
        T(test_blocking_has_a_limit_of_time_without_any_progress),
        T(test_a_client_maps_no_more_than_its_limit),
        T(test_a_client_maps_at_most_half_of_host_memory),
        T(test_a_shadow_with_its_subscriber_gone_lets_go),
        T(test_a_turn_ends_however_much_its_readers_would_take),
        T(test_no_priority_stops_the_topics_of_others),
        T(test_a_walk_that_takes_several_turns_has_an_end),
        T(test_who_waits_for_credit_is_not_looked_at),
        T(test_who_keeps_up_does_not_wait_for_those_that_are_behind),
        T(test_one_reader_leaves_out_so_many_entries_in_a_walk),
        T(test_counters_count_what_goes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
