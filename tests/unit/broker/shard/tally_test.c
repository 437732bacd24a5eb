/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tallies: batches whose publisher waits for their delivery. Topic, publisher, queue and readers on
 * one worker; and each on another.
 */
#include "broker/ingest/publisher.h"
#include "broker/shard/tally.h"
#include "broker/topic/begin.h"
#include "broker/topic/trim.h"
#include "tests/unit/broker/delivery/acks/queue_world.h"

/* A topic whose home is not the publisher's worker, if there are several. */
static uint32_t open_topic(struct world *w, const char *name)
{
    uint32_t topic = harness_topic(&w->h, name, w->h.count - 1);
    client_open_pub(w->p, 1, topic, false);
    struct amb_publisher *publisher = amb_session_publisher(w->p->session, 1);
    publisher->confirms = publisher->asks = true;
    return topic;
}

static void send(struct world *w, unsigned batches, uint32_t count)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 1, count, 64);
        harness_settle(&w->h);
    }
}

static void read_all(struct world *w, uint32_t topic)
{
    client_subscribe(w->a, 1, topic, NULL);
    client_subscribe(w->b, 1, topic, NULL);
    client_subscribe(w->c, 1, topic, NULL);
    harness_settle(&w->h);
}

static void expect_settled(const struct world *w, unsigned index, uint64_t batch, uint32_t matched,
                           uint64_t dropped)
{
    assert_true(w->p->settle_count > index);
    const struct client_settle *settle = &w->p->settles[index];
    assert_int_equal(settle->batch, batch);
    assert_int_equal(settle->matched, matched);
    assert_int_equal(settle->dropped, dropped);
    assert_int_equal(settle->status, AMB_OK);
}

static void test_it_settles_when_the_last_reader_has_given_it_back(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "u");
    read_all(w, topic);
    send(w, 2, 3);
    assert_int_equal(w->p->pubs[1].accepted, 2);
    client_release_all(w->a, 1);
    client_release_all(w->c, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0);
    client_release(w->b, 1, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 1);
    expect_settled(w, 0, 1, 3, 0);
    assert_int_equal(w->p->settles[0].first_seq, 1);
    client_release_all(w->b, 1);
    harness_settle(&w->h);
    expect_settled(w, 1, 2, 3, 0);
}

/* A worker that sleeps must be woken by the release, or the publisher hears of it seconds later. */
static void test_who_may_end_it_by_a_release_wakes_the_worker(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "u");
    read_all(w, topic);
    assert_false(amb_session_wants_flow(w->b->session));
    send(w, 2, 3);
    client_release_all(w->a, 1);
    client_release(w->b, 1, 1);
    client_release_range(w->c, 1, 2, 1);
    harness_settle(&w->h);
    assert_false(amb_session_wants_flow(w->a->session));
    assert_true(amb_session_wants_flow(w->b->session));
    assert_true(amb_session_wants_flow(w->c->session));
    client_release_all(w->b, 1);
    client_release_all(w->c, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 2);
    assert_false(amb_session_wants_flow(w->b->session));
    assert_false(amb_session_wants_flow(w->c->session));
}

/* Nobody waits for what comes back then. */
static void test_without_a_tally_a_release_wakes_nobody(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "u");
    amb_session_publisher(w->p->session, 1)->confirms = false;
    read_all(w, topic);
    send(w, 1, 3);
    assert_int_equal(w->b->subs[1].msgs, 3);
    assert_false(amb_session_wants_flow(w->b->session));
}

static void test_without_readers_it_settles_at_once(void **state)
{
    struct world *w = *state;
    (void)open_topic(w, "u");
    send(w, 1, 5);
    expect_settled(w, 0, 1, 0, 0);
}

static void test_what_a_dead_reader_held_was_dropped(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    send(w, 1, 4);
    client_release_all(w->a, 1);
    client_release_all(w->c, 1);
    client_close(w->b, false);
    harness_settle(&w->h);
    expect_settled(w, 0, 1, 3, 4);
}

static void test_what_the_log_drops_was_dropped(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "small"); /* Keeps ten. */
    client_subscribe(
        w->c, 1, topic,
        &(struct amb_subscription_options){.credit_msgs = 1, .slow = AMB_SLOW_DROP_OLDEST});
    harness_settle(&w->h);
    send(w, 1, 1);  /* held */
    send(w, 20, 1); /* half of them do not fit */
    assert_int_equal(w->p->settle_count, 10);
    for (unsigned i = 0; i < 10; i++) {
        expect_settled(w, i, 2 + i, 1, 1);
    }
    client_drain(w->c, 1);
    assert_int_equal(w->p->settle_count, 21);
    expect_settled(w, 10, 1, 1, 0);
    expect_settled(w, 20, 21, 1, 0);
}

static void test_readers_that_come_later_do_not_count(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "kept");
    client_subscribe(w->a, 1, topic, NULL);
    harness_settle(&w->h);
    send(w, 1, 2);
    const struct amb_begin first = {.start = AMB_START_FIRST};
    client_subscribe_from(w->b, 1, topic, NULL, &first);
    client_subscribe_from(w->c, 1, topic, NULL, &first);
    harness_settle(&w->h);
    assert_int_equal(w->c->subs[1].msgs, 2);
    client_release_all(w->a, 1);
    harness_settle(&w->h);
    expect_settled(w, 0, 1, 1, 0);
    send(w, 1, 2); /* Now they do. */
    client_release_all(w->a, 1);
    client_release_all(w->b, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 1);
    client_release_all(w->c, 1);
    harness_settle(&w->h);
    expect_settled(w, 1, 2, 3, 0);
    struct amb_topic *home = harness_home(&w->h, topic);
    amb_topic_forget(home, home->log.hi); /* The harness wants to see everything back. */
}

static void test_of_a_queue_an_ack_counts_and_not_the_release(void **state)
{
    struct world *w = *state;
    w->topic = open_topic(w, "u");
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    send(w, 1, 4);
    client_release_all(w->a, 0);
    client_say(w->a, 0, 1, 0, 2, AMB_ACK_KIND_ACK, 0);
    client_say(w->a, 0, 1, 2, 1, AMB_ACK_KIND_NAK, 0); /* comes again */
    client_say(w->a, 0, 1, 3, 1, AMB_ACK_KIND_TERM, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0);
    client_ack(w->a, 0, 2);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    expect_settled(w, 0, 1, 1, 1); /* the dead letter */
}

static void test_of_a_group_without_acks_the_release_counts(void **state)
{
    struct world *w = *state;
    w->topic = open_topic(w, "u");
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_NONE});
    client_join(w->b, 0, &w->q, NULL);
    client_join(w->c, 0, &w->q, NULL);
    send(w, 1, 8);
    assert_int_equal(w->b->subs[0].msgs + w->c->subs[0].msgs, 8);
    client_release_all(w->b, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0);
    uint64_t held = w->c->subs[0].msgs;
    assert_true(held > 0);
    client_close(w->c, false);
    harness_settle(&w->h);
    expect_settled(w, 0, 1, 1, held);
    assert_int_equal(w->b->subs[0].msgs, 8 - held); /* Messages that died came no second time. */
}

static void test_the_end_of_its_publisher_leaves_nothing(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    send(w, 3, 2);
    client_close_pub(w->p, 1);
    client_release_all(w->a, 1);
    client_release_all(w->b, 1);
    client_release_all(w->c, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0);
    for (unsigned i = 0; i < w->h.count; i++) {
        assert_int_equal(w->h.shards[i].tallies.pool.used, 0);
    }
}

static void test_a_batch_that_finds_no_room_is_refused(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "u");
    client_subscribe(w->a, 1, topic, NULL);
    harness_settle(&w->h);
    w->h.shards[0].tallies.pool.max = 1;
    send(w, 2, 1);
    while (w->p->settle_count == 0) { /* A pool grows by chunks. */
        send(w, 1, 1);
    }
    assert_int_equal(w->p->settles[0].status, AMB_ELIMIT);
    client_drain(w->a, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, w->p->pubs[1].batches);
}

static void test_a_refused_batch_has_no_tally(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "reject");
    client_subscribe(w->a, 1, topic,
                     &(struct amb_subscription_options){
                         .credit_msgs = 1, .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX});
    harness_settle(&w->h);
    send(w, 12, 1);
    assert_true(w->p->settle_count > 0);
    assert_int_equal(w->p->settles[0].status, AMB_EREJECTED);
    client_drain(w->a, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_it_settles_when_the_last_reader_has_given_it_back),
        BOTH(test_who_may_end_it_by_a_release_wakes_the_worker),
        BOTH(test_without_a_tally_a_release_wakes_nobody),
        BOTH(test_without_readers_it_settles_at_once),
        BOTH(test_what_a_dead_reader_held_was_dropped),
        BOTH(test_what_the_log_drops_was_dropped),
        BOTH(test_readers_that_come_later_do_not_count),
        BOTH(test_of_a_queue_an_ack_counts_and_not_the_release),
        BOTH(test_of_a_group_without_acks_the_release_counts),
        BOTH(test_the_end_of_its_publisher_leaves_nothing),
        BOTH(test_a_batch_that_finds_no_room_is_refused),
        cmocka_unit_test_setup_teardown(test_a_refused_batch_has_no_tally, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
