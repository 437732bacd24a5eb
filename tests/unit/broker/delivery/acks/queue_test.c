/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: groups, redelivery, what outlives a member; on one worker and on several.
 */
#include "broker/delivery/acks/queue_kept.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/acks/taker.h"
#include "tests/support/shard/shard_lease.h"
#include "tests/support/shard/shard_trace.h"
#include "tests/unit/broker/delivery/acks/queue_world.h"

static void test_a_nak_comes_again_at_once_or_after_its_delay(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 2, 16);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_NAK, 0);
    assert_int_equal(w->a->subs[0].last, 2);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_NAK, 5 * AMB_NS_PER_SEC);
    assert_int_equal(w->a->subs[0].last, 2);
    harness_pass(&w->h, 5 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 3);
    assert_int_equal(client_delivery(w->a, 0, 3)->frame.seq, 2);
    client_ack(w->a, 0, 2);
    client_ack(w->a, 0, 3);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
}

static void test_backoff_is_the_pause_before_each_next_delivery(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_EXPLICIT,
                                             .ack_wait_ns = AMB_NS_PER_SEC,
                                             .backoff_count = 2,
                                             .backoff_ns = {AMB_NS_PER_SEC, 10 * AMB_NS_PER_SEC}});
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 1, 16);
    const int64_t pauses[] = {1, 10, 10};
    for (unsigned i = 0; i < 3; i++) {
        client_say(w->a, 0, i + 1, 0, 1, AMB_ACK_KIND_NAK, 0);
        harness_pass(&w->h, pauses[i] * AMB_NS_PER_SEC - AMB_NS_PER_MS);
        harness_settle(&w->h);
        assert_int_equal(w->a->subs[0].last, i + 1);
        harness_pass(&w->h, AMB_NS_PER_MS);
        harness_settle(&w->h);
        assert_int_equal(w->a->subs[0].last, i + 2);
    }
    client_ack(w->a, 0, 4);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
}

static void test_what_waits_to_come_again_counts_against_the_credit(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 2});
    publish(w, 6, 1, 16);
    for (uint64_t i = 1; i <= w->a->subs[0].last; i++) {
        client_say(w->a, 0, i, 0, 1, AMB_ACK_KIND_NAK, 60 * AMB_NS_PER_SEC);
        client_release(w->a, 0, i);
        harness_settle(&w->h);
    }
    assert_true(w->a->subs[0].last <= 4); /* not the whole log */
    harness_pass(&w->h, 61 * AMB_NS_PER_SEC);
    uint64_t from = 0;
    harness_settle(&w->h);
    ack_all(w->a, &from);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    assert_int_equal(w->h.topics[w->topic][0]->log.msgs, 0);
}

static void test_each_message_goes_to_exactly_one_member(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    client_join(w->b, 0, &w->q, NULL);
    client_join(w->c, 0, &w->q, NULL);
    publish(w, 10, 9, 32);
    expect_seen(w, 1, 90, 1);
    assert_int_equal(w->a->subs[0].msgs, 30);
    assert_int_equal(w->b->subs[0].msgs, 30);
    assert_int_equal(w->c->subs[0].msgs, 30);
    struct shard_client *all[] = {w->a, w->b, w->c};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t from = 0;
        ack_all(all[i], &from);
    }
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_who_has_no_credit_left_gets_nothing_others_do(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 3});
    client_join(w->b, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 50});
    publish(w, 20, 1, 32);
    assert_true(w->a->subs[0].msgs <= 3);
    assert_int_equal(w->a->subs[0].msgs + w->b->subs[0].msgs, 20);
    client_drain(w->a, 0);
    client_drain(w->b, 0);
}

/* a and c are on the host, b is not. Opens the queue on topic "near". */
static void open_near(struct world *w, enum amb_ack ack)
{
    w->topic = harness_topic(&w->h, "near", 0);
    w->b->session->is_on_host = false;
    client_open_pub(w->p, 1, w->topic, false);
    open_with(w, &(struct amb_queue_options){.ack = ack, .ack_wait_ns = AMB_ACK_WAIT_DEFAULT_NS});
    const struct amb_subscription_options credit = {.credit_msgs = 40};
    client_join(w->b, 0, &w->q, &credit);
    client_join(w->a, 0, &w->q, &credit);
    client_join(w->c, 0, &w->q, &credit);
}

static void publish_near(struct world *w, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 1, 4, 32);
        harness_settle(&w->h);
    }
}

static void near_members_go_first_while_they_keep_up(struct world *w, enum amb_ack ack)
{
    open_near(w, ack);
    publish_near(w, 10);
    assert_int_equal(w->a->subs[0].msgs, 20); /* half of their credit */
    assert_int_equal(w->c->subs[0].msgs, 20);
    assert_int_equal(w->b->subs[0].msgs, 0);
    publish_near(w, 4); /* They keep up no longer, and the other one does. */
    assert_true(w->b->subs[0].msgs >= 12);
    uint64_t given = w->b->subs[0].msgs, from_a = 0, from_b = 0, from_c = 0;
    if (ack == AMB_ACK_NONE) {
        client_release_all(w->a, 0);
        client_release_all(w->c, 0);
        harness_settle(&w->h);
    } else {
        ack_all(w->a, &from_a);
        ack_all(w->c, &from_c);
    }
    publish_near(w, 5);
    assert_int_equal(w->b->subs[0].msgs, given);
    expect_seen(w, 1, 76, 1);
    if (ack == AMB_ACK_NONE) {
        client_drain(w->b, 0);
    } else {
        ack_all(w->a, &from_a);
        ack_all(w->b, &from_b);
        ack_all(w->c, &from_c);
    }
    client_drain(w->a, 0);
    client_drain(w->c, 0);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    assert_int_equal(harness_queue(&w->q)->given_remote, given);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_near_members_go_first_while_they_keep_up(void **state)
{
    near_members_go_first_while_they_keep_up(*state, AMB_ACK_NONE);
}

static void test_near_members_that_acknowledge_go_first_while_they_keep_up(void **state)
{
    near_members_go_first_while_they_keep_up(*state, AMB_ACK_EXPLICIT);
}

static void test_what_near_members_refuse_comes_to_others_too(void **state)
{
    struct world *w = *state;
    open_near(w, AMB_ACK_EXPLICIT);
    publish_near(w, 1);
    struct shard_client *near[] = {w->a, w->c};
    for (unsigned i = 0; i < 2; i++) {
        for (uint64_t n = 1; n <= near[i]->subs[0].last && w->b->subs[0].msgs == 0; n++) {
            client_say(near[i], 0, n, 0, client_count(near[i], 0, n), AMB_ACK_KIND_NAK, 0);
        }
    }
    assert_true(w->b->subs[0].msgs > 0);
    client_drain(w->a, 0);
    client_drain(w->b, 0);
    client_drain(w->c, 0);
}

static void test_what_a_member_leaves_unsettled_the_others_get(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    client_join(w->b, 0, &w->q, NULL);
    client_join(w->c, 0, &w->q, NULL);
    publish(w, 3, 6, 32);
    uint64_t before = w->c->subs[0].msgs;
    client_ack(w->c, 0, 1);
    client_drain(w->c, 0);
    client_close(w->c, false); /* killed */
    harness_settle(&w->h);
    uint64_t again = 0;
    for (uint64_t i = 1; i <= 18; i++) {
        assert_true(w->seen[i] == 1 || w->seen[i] == 2);
        again += w->seen[i] - 1;
    }
    assert_int_equal(again, before - client_count(w->c, 0, 1));
    client_quit(w->b, 0, 0); /* left: all that is not settled is a's now */
    uint64_t from = 0;
    client_drain(w->a, 0);
    while (from < w->a->subs[0].last) {
        client_ack(w->a, 0, ++from);
    }
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    client_drain(w->a, 0);
    client_drain(w->b, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_queue_outlives_its_member_and_goes_on(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 2, 2, 32);
    client_ack(w->a, 0, 1);
    client_close(w->a, false);
    harness_settle(&w->h);
    publish(w, 2, 2, 32);
    assert_int_equal(harness_queue(&w->q)->seat_count, 0);
    client_join(w->c, 0, &w->q, NULL);
    assert_int_equal(w->c->subs[0].msgs, 6);
    expect_seen(w, 1, 2, 1);
    expect_seen(w, 3, 4, 2);
    expect_seen(w, 5, 8, 1);
    assert_int_equal(client_delivery(w->c, 0, 1)->frame.seq, 3);
    assert_int_equal(client_delivery(w->c, 0, 1)->frame.attempt, 1);
    assert_int_equal(client_delivery(w->c, 0, 2)->frame.attempt, 0);
    client_drain(w->c, 0);
}

/* More than the log of its topic keeps, in a queue without a member. */
static void fill_small(struct world *w)
{
    uint32_t small = harness_topic(&w->h, "small", 0);
    client_open_pub(w->p, 1, small, false);
    harness_queue_open(&w->h, w->where, NULL, &w->q);
    harness_queue_read(&w->q, small);
    for (unsigned i = 0; i < 25; i++) {
        client_send(w->p, 1, 1, 32);
        harness_settle(&w->h);
    }
}

static void test_without_a_member_it_blocks_nobody_and_is_cut_with_an_exact_gap(void **state)
{
    struct world *w = *state;
    fill_small(w);
    client_join(w->c, 0, &w->q, NULL);
    assert_int_equal(w->c->subs[0].msgs, 10);
    assert_int_equal(w->c->subs[0].lost, 15);
    assert_int_equal(client_delivery(w->c, 0, 1)->frame.lost, 15);
    assert_int_equal(client_delivery(w->c, 0, 1)->frame.seq, 16);
    client_drain(w->c, 0);
}

#define LENDS_MAX 100u

static bool has_no_memory;
static const struct amb_shard *poor; /* the one that has none; NULL: all */
static unsigned lends_refused;

struct amb_entry *__real_amb_entry_lend(struct amb_entry *entry, struct amb_shard *shard);
struct amb_entry *__wrap_amb_entry_lend(struct amb_entry *entry, struct amb_shard *shard);

struct amb_entry *__wrap_amb_entry_lend(struct amb_entry *entry, struct amb_shard *shard)
{
    if (!has_no_memory || (poor != NULL && poor != shard)) {
        return __real_amb_entry_lend(entry, shard);
    }
    if (++lends_refused > LENDS_MAX) {
        has_no_memory = false;
        poor = NULL;
        fail_msg("%u tries without memory", lends_refused);
    }
    return NULL;
}

/* The queue's worker has none, from here on. */
static void lack_memory(const struct world *w)
{
    lends_refused = 0;
    poor = &w->h.shards[w->where];
    has_no_memory = true;
}

/* And it has none for so long. */
static void stay_without_memory(struct world *w, int64_t ns)
{
    harness_settle(&w->h);
    assert_false(amb_shard_is_dirty(&w->h.shards[w->where])); /* The worker may sleep. */
    for (; ns > 0; ns -= AMB_NS_PER_MS) {
        harness_pass(&w->h, AMB_NS_PER_MS);
        harness_settle(&w->h);
    }
    has_no_memory = false;
    poor = NULL;
    assert_in_range(lends_refused, 1, 10);
    harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
    harness_settle(&w->h);
}

static void test_a_nak_that_no_memory_lends_is_tried_again_after_a_pause(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 1, 16);
    lack_memory(w);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_NAK, 0);
    assert_int_equal(w->a->subs[0].last, 1);
    stay_without_memory(w, 20 * AMB_NS_PER_MS);
    assert_int_equal(w->a->subs[0].last, 2);
    assert_int_equal(w->seen[1], 2);
    client_drain(w->a, 0);
}

/* Nobody has a message of the queue, so no credit comes. */
static void test_a_message_that_no_memory_lends_goes_out_after_a_pause(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    lack_memory(w);
    publish(w, 1, 1, 16);
    assert_int_equal(w->a->subs[0].last, 0);
    stay_without_memory(w, 20 * AMB_NS_PER_MS);
    assert_int_equal(w->a->subs[0].last, 1);
    client_drain(w->a, 0);
}

static void test_a_gap_counts_once_where_no_memory_lends_what_is_behind(void **state)
{
    struct world *w = *state;
    fill_small(w);
    has_no_memory = true;
    client_join(w->c, 0, &w->q, NULL);
    has_no_memory = false;
    client_send(w->p, 1, 1, 32); /* The topic is walked again. */
    harness_settle(&w->h);
    assert_int_equal(harness_queue(&w->q)->lost, w->c->subs[0].lost);
    assert_int_equal(w->c->subs[0].lost + w->c->subs[0].msgs, 26);
    client_drain(w->c, 0);
}

static void test_a_take_that_no_memory_lends_is_none_in_a_trace(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    open_with(w, NULL);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 2, 16);
    has_no_memory = true;
    client_join(w->c, 0, &w->q, NULL);
    has_no_memory = false;
    publish(w, 1, 1, 16); /* The topic is walked again. */
    assert_int_equal(w->c->subs[0].msgs, 3);
    assert_int_equal(harness_noted(trace, AMB_TRACE_GIVEN, 1, &record), 1);
    assert_int_equal(record.msgs, 2);
    uint64_t from = 0;
    ack_all(w->c, &from);
    assert_int_equal(harness_noted(trace, AMB_TRACE_DROPPED, 1, NULL), 0);
    assert_int_equal(harness_noted(trace, AMB_TRACE_OVER, 1, NULL), 1);
    harness_disarm(&w->h, &trace);
}

/* There may be tens of thousands, and one that lacks memory may be another user's. */
static void test_a_retry_looks_at_no_other_queue(void **state)
{
    struct world *w = *state;
    const struct amb_shard_queues *queues = &w->h.shards[w->where].queues;
    struct harness_queue other;
    harness_queue_open(&w->h, w->where, NULL, &other);
    harness_queue_read(&other, w->topic);
    client_join(w->b, 1, &other, NULL);
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 1, 16);
    client_say(w->b, 1, 1, 0, 1, AMB_ACK_KIND_NAK, 100 * AMB_NS_PER_SEC);
    client_quit(w->b, 1, 1);
    client_release_all(w->b, 1);
    harness_queue_close(&other);
    harness_settle(&w->h);
    /* A look at all of them would find that nothing is due any more. */
    int64_t due_ns = queues->due_ns;
    assert_true(due_ns > w->h.now_ns && due_ns < INT64_MAX);
    lack_memory(w);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_NAK, 0);
    for (unsigned i = 0; i < 3; i++) {
        harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
        harness_settle(&w->h);
        assert_int_equal(queues->due_ns, due_ns);
    }
    stay_without_memory(w, 20 * AMB_NS_PER_MS);
    assert_int_equal(w->a->subs[0].last, 2);
    client_drain(w->a, 0);
}

#define LACKING (AMB_QUEUES_RETRY_TURN + 10u)

static void test_queues_that_lack_memory_try_again_some_a_turn(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[w->where];
    const struct amb_queue_options options = {.ack = AMB_ACK_EXPLICIT};
    struct amb_queue *lacking[LACKING];
    for (unsigned i = 0; i < LACKING; i++) {
        assert_int_equal(amb_queue_create(shard, 1000 + i, &options, NULL, &lacking[i]), AMB_OK);
        amb_queue_pause(lacking[i]);
        amb_queue_pause(lacking[i]);
    }
    amb_queue_close(lacking[0]);
    assert_int_equal(amb_queues_due(shard) - shard->now_ns, AMB_TAKE_PAUSE_NS);
    harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
    (void)harness_turn(&w->h, w->where);
    unsigned left = 0;
    AMB_LIST_FOR_EACH (node, &shard->queues.lacking) {
        left++;
    }
    assert_int_equal(left, LACKING - 1 - AMB_QUEUES_RETRY_TURN);
    assert_true(amb_queues_due(shard) <= shard->now_ns); /* The worker does not sleep. */
    (void)harness_turn(&w->h, w->where);
    assert_int_equal(amb_queues_due(shard), INT64_MAX);
    for (unsigned i = 1; i < LACKING; i++) {
        amb_queue_close(lacking[i]);
    }
}

/* ---- no memory for a take ---- */

static bool lacks_takes;

struct amb_take *__real_amb_queue_take_make(struct amb_queue *queue, struct amb_topic *topic,
                                            struct amb_entry *entry, uint32_t first,
                                            uint32_t count);
struct amb_take *__wrap_amb_queue_take_make(struct amb_queue *queue, struct amb_topic *topic,
                                            struct amb_entry *entry, uint32_t first,
                                            uint32_t count);

struct amb_take *__wrap_amb_queue_take_make(struct amb_queue *queue, struct amb_topic *topic,
                                            struct amb_entry *entry, uint32_t first, uint32_t count)
{
    return lacks_takes ? NULL : __real_amb_queue_take_make(queue, topic, entry, first, count);
}

/* There is memory again, and the pause is over. */
static void end_lack_of_takes(struct world *w)
{
    lacks_takes = false;
    harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
    harness_settle(&w->h);
}

/* a has five messages of one batch and has settled two of them, when its time is over. */
static void leave_holes(struct world *w)
{
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 5, 16);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    client_say(w->a, 0, 1, 3, 1, AMB_ACK_KIND_ACK, 0);
    lacks_takes = true;
    harness_pass(&w->h, 31 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
}

static void test_settled_messages_stay_settled_where_no_memory_splits_a_take(void **state)
{
    struct world *w = *state;
    leave_holes(w);
    assert_int_equal(w->a->subs[0].last, 1);
    assert_int_equal(harness_queue(&w->q)->kept_msgs, 3);
    assert_true(amb_queues_due(&w->h.shards[w->where]) <= w->h.now_ns + AMB_TAKE_PAUSE_NS);
    end_lack_of_takes(w);
    assert_int_equal(w->a->subs[0].last, 4);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(client_delivery(w->a, 0, 2 + i)->frame.seq, 1 + 2 * i);
        assert_int_equal(client_delivery(w->a, 0, 2 + i)->frame.attempt, 1);
        assert_int_equal(client_count(w->a, 0, 2 + i), 1);
    }
    expect_seen(w, 2, 2, 1);
    expect_seen(w, 4, 4, 1);
    uint64_t from = 1;
    ack_all(w->a, &from);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    assert_int_equal(harness_queue(&w->q)->kept_bytes, 0);
    assert_int_equal(amb_session_subscription(w->a->session, 0)->taker->acked, 5);
}

/* Messages that wait for their time are split when that has come. */
static void test_a_backoff_outlasts_a_lack_of_memory(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_EXPLICIT,
                                             .ack_wait_ns = 30 * AMB_NS_PER_SEC,
                                             .backoff_count = 1,
                                             .backoff_ns = {10 * AMB_NS_PER_SEC}});
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 3, 16);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    lacks_takes = true;
    harness_pass(&w->h, 31 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    end_lack_of_takes(w);
    assert_int_equal(w->a->subs[0].last, 1);
    harness_pass(&w->h, 10 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 3);
    expect_seen(w, 1, 1, 2);
    expect_seen(w, 2, 2, 1);
    expect_seen(w, 3, 3, 2);
    client_drain(w->a, 0);
}

/* The member still has the other messages of its delivery. */
static void test_without_memory_a_nak_is_of_that_message_alone(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 3, 16);
    lacks_takes = true;
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_NAK, 0);
    lacks_takes = false;
    assert_int_equal(w->a->subs[0].last, 2);
    assert_int_equal(client_count(w->a, 0, 2), 1);
    assert_int_equal(client_delivery(w->a, 0, 2)->frame.seq, 2);
    uint64_t from = 0;
    ack_all(w->a, &from);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
}

/* Messages of all records of that stage. */
static unsigned msgs_noted(const struct amb_trace *trace, enum amb_trace_stage stage)
{
    unsigned msgs = 0;
    for (unsigned i = 0; i < trace->part_count; i++) {
        const struct amb_trace_part *part = trace->parts[i];
        for (uint32_t k = 0; k < atomic_load(&part->count); k++) {
            msgs += part->records[k].stage == stage ? part->records[k].msgs : 0;
        }
    }
    return msgs;
}

static void test_settled_messages_count_once_where_no_memory_splits_a_take(void **state)
{
    struct world *w = *state;
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    leave_holes(w);
    assert_int_equal(msgs_noted(trace, AMB_TRACE_ACKED), 2); /* by then */
    end_lack_of_takes(w);
    uint64_t from = 1;
    ack_all(w->a, &from);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(msgs_noted(trace, AMB_TRACE_ACKED), 5);
    assert_int_equal(harness_noted(trace, AMB_TRACE_DROPPED, 1, NULL), 0);
    assert_int_equal(harness_noted(trace, AMB_TRACE_OVER, 1, NULL), 1);
    harness_disarm(&w->h, &trace);
}

static void test_a_leased_batch_goes_out_message_by_message(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 65536, 4, &lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    client_join(w->b, 0, &w->q, NULL);
    client_commit(w->p, 0, &lease, 0, 4, 50000);
    harness_settle(&w->h);
    expect_seen(w, 1, 4, 1);
    assert_int_equal(w->a->subs[0].msgs, 2);
    assert_int_equal(w->b->subs[0].msgs, 2);
    uint64_t from_a = 0, from_b = 0;
    ack_all(w->a, &from_a);
    ack_all(w->b, &from_b);
    assert_true(client_is_freed(w->p, 1));
    client_lease_close(w->p, &lease);
    client_lease_fini(&lease);
    harness_settle(&w->h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_nak_comes_again_at_once_or_after_its_delay),
        BOTH(test_backoff_is_the_pause_before_each_next_delivery),
        BOTH(test_what_waits_to_come_again_counts_against_the_credit),
        BOTH(test_each_message_goes_to_exactly_one_member),
        BOTH(test_who_has_no_credit_left_gets_nothing_others_do),
        BOTH(test_near_members_go_first_while_they_keep_up),
        BOTH(test_near_members_that_acknowledge_go_first_while_they_keep_up),
        BOTH(test_what_near_members_refuse_comes_to_others_too),
        BOTH(test_what_a_member_leaves_unsettled_the_others_get),
        BOTH(test_a_queue_outlives_its_member_and_goes_on),
        BOTH(test_without_a_member_it_blocks_nobody_and_is_cut_with_an_exact_gap),
        BOTH(test_a_gap_counts_once_where_no_memory_lends_what_is_behind),
        BOTH(test_a_take_that_no_memory_lends_is_none_in_a_trace),
        BOTH(test_queues_that_lack_memory_try_again_some_a_turn),
        cmocka_unit_test_setup_teardown(
            test_a_nak_that_no_memory_lends_is_tried_again_after_a_pause, setup_spread, teardown),
        cmocka_unit_test_setup_teardown(test_a_message_that_no_memory_lends_goes_out_after_a_pause,
                                        setup_spread, teardown),
        cmocka_unit_test_setup_teardown(test_a_retry_looks_at_no_other_queue, setup_spread,
                                        teardown),
        BOTH(test_settled_messages_stay_settled_where_no_memory_splits_a_take),
        BOTH(test_a_backoff_outlasts_a_lack_of_memory),
        BOTH(test_without_memory_a_nak_is_of_that_message_alone),
        BOTH(test_settled_messages_count_once_where_no_memory_splits_a_take),
        BOTH(test_a_leased_batch_goes_out_message_by_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
