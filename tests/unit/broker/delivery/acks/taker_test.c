/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of queues: deliveries until they are acknowledged, or not in time.
 */
#include "broker/delivery/acks/taker.h"

#include "broker/session/session.h"
#include "tests/unit/broker/delivery/acks/queue_world.h"

static void test_credit_returns_with_the_acknowledgement_not_with_the_release(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 4});
    publish(w, 3, 2, 16);
    assert_int_equal(w->a->subs[0].msgs, 4);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].msgs, 4);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    assert_int_equal(w->a->subs[0].msgs, 5);
    client_ack(w->a, 0, 2);
    assert_int_equal(w->a->subs[0].msgs, 6);
    uint64_t from = 0;
    ack_all(w->a, &from);
    expect_seen(w, 1, 6, 1);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_what_is_not_acknowledged_in_time_comes_again_and_says_how_often(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 3, 16);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    harness_pass(&w->h, 31 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 3); /* 1 and 3, around the one that is settled */
    assert_int_equal(client_delivery(w->a, 0, 2)->frame.attempt, 1);
    assert_int_equal(client_delivery(w->a, 0, 2)->frame.seq, 1);
    assert_int_equal(client_delivery(w->a, 0, 3)->frame.seq, 3);
    client_ack(w->a, 0, 1); /* Too late for that delivery: it is another's now. */
    assert_int_equal(harness_queue(&w->q)->takes, 2);
    client_ack(w->a, 0, 2);
    client_ack(w->a, 0, 3);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    client_release_all(w->a, 0);
    harness_pass(&w->h, 31 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 3);
}

static void test_in_progress_gives_time_anew(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 2, 1, 16);
    harness_pass(&w->h, 20 * AMB_NS_PER_SEC);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_IN_PROGRESS, 0);
    harness_pass(&w->h, 20 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 3); /* the second one again */
    assert_int_equal(client_delivery(w->a, 0, 3)->frame.seq, 2);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
}

/* One word for all of them: it costs the same however many they are, and those that are sent later
 * have their own time. */
static void test_in_progress_prolongs_all_that_stay_in_order(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_CUMULATIVE,
                                             .ack_wait_ns = 30 * AMB_NS_PER_SEC});
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 3, 1, 16);
    struct amb_taker *taker = amb_session_subscription(w->a->session, 0)->taker;
    const struct amb_take *last = AMB_CONTAINER_OF(taker->pending.prev, struct amb_take, node);
    int64_t due_ns = last->due_ns;
    harness_pass(&w->h, 20 * AMB_NS_PER_SEC);
    client_say(w->a, 0, 3, 0, 1, AMB_ACK_KIND_IN_PROGRESS, 0);
    harness_settle(&w->h);
    assert_int_equal(last->due_ns, due_ns); /* No take was walked past. */
    harness_pass(&w->h, 20 * AMB_NS_PER_SEC);
    publish(w, 1, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 4);
    assert_int_equal(taker->expired, 0);
    harness_pass(&w->h, 11 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(taker->expired, 3);
    harness_pass(&w->h, 20 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_true(taker->expired >= 4); /* the later one by its own time */
    client_release_all(w->a, 0);
    harness_settle(&w->h);
}

/* A member that settles nothing: it is given what half of its client's heap holds, and more when
 * something has come back. */
static void test_takes_are_charged_to_their_member(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->b, 0, &w->q, NULL);
    harness_settle(&w->h);
    struct amb_heap_account *heap = &w->b->session->heap;
    uint64_t room = 10 * (sizeof(struct amb_take) + AMB_HEAP_OVERHEAD);
    heap->limit = 2 * (heap->bytes + 200 + room);
    publish(w, 60, 1, 16);
    assert_int_equal(w->b->subs[0].msgs, 11); /* and the table for their numbers */
    assert_int_equal(w->b->ended, 0);
    for (uint64_t i = 1; i <= 60; i++) {
        client_ack(w->b, 0, i);
        assert_true(heap->bytes <= heap->limit);
    }
    harness_settle(&w->h);
    assert_int_equal(w->b->subs[0].msgs, 60);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    client_release_all(w->b, 0);
    harness_settle(&w->h);
    assert_false(atomic_load(&amb_session_subscription(w->b->session, 0)->taker->seat->is_full));
}

/* They came from another worker before that had heard: past the limit the session ends. */
static void test_takes_past_the_limit_end_the_session(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->b, 0, &w->q, NULL);
    harness_settle(&w->h);
    struct amb_heap_account *heap = &w->b->session->heap;
    heap->limit = heap->bytes;
    publish(w, 3, 1, 16);
    assert_int_equal(w->b->ended, 1);
    assert_int_equal(w->b->ended_why, AMB_ELIMIT);
    assert_non_null(strstr(w->b->ended_text, AMB_HEAP_KEY));
}

static void test_a_cumulative_acknowledgement_settles_all_before_it(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_CUMULATIVE,
                                             .ack_wait_ns = 30 * AMB_NS_PER_SEC});
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 10});
    publish(w, 3, 3, 16);
    client_say(w->a, 0, 3, 1, 1, AMB_ACK_KIND_ACK, 0);
    assert_int_equal(harness_queue(&w->q)->takes, 1);
    harness_pass(&w->h, 31 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 4);
    assert_int_equal(client_delivery(w->a, 0, 4)->frame.seq, 9);
    client_ack(w->a, 0, 4);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
}

static void test_acknowledgements_under_way_count_before_the_end(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 2, 1, 32);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    client_quit(w->a, 0, 2); /* by another way, and sooner than what was sent before */
    assert_int_equal(harness_queue(&w->q)->seat_count, 0); /* It gets no more, */
    assert_int_equal(harness_queue(&w->q)->takes, 2);      /* and what it has is its own. */
    client_ack(w->a, 0, 1);
    client_ack(w->a, 0, 2);
    assert_int_equal(harness_queue(&w->q)->seat_count, 0);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
}

static void test_without_acks_credit_returns_with_the_release(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_NONE});
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 2});
    client_join(w->b, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 2});
    publish(w, 8, 1, 32);
    assert_int_equal(w->a->subs[0].msgs, 2);
    assert_int_equal(w->b->subs[0].msgs, 2);
    for (unsigned i = 0; i < 4; i++) {
        client_drain(w->a, 0);
        client_drain(w->b, 0);
    }
    expect_seen(w, 1, 8, 1);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_lies_about_deliveries_end_the_session(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    client_join(w->b, 0, &w->q, NULL);
    client_subscribe(w->c, 1, w->topic, NULL);
    harness_settle(&w->h);
    publish(w, 2, 2, 32);
    client_say(w->a, 0, 1, 0, 2, AMB_ACK_KIND_ACK, 0); /* it got one of two */
    assert_int_equal(w->a->ended, 1);
    client_say(w->b, 0, 9, 0, 1, AMB_ACK_KIND_ACK, 0);
    assert_int_equal(w->b->ended, 1);
    client_say(w->c, 1, 1, 0, 1, AMB_ACK_KIND_ACK, 0);
    assert_int_equal(w->c->ended, 1);
    assert_int_equal(w->c->ended_why, AMB_EPROTO);
}

/* ---- without memory ---- */

enum lack {
    NOTHING_LACKS,
    NAME_LACKS,
    TABLE_LACKS
};

static enum lack lack;

enum amb_status __real_amb_session_name_create(struct amb_session_names *names, const char *text,
                                               uint32_t len, struct amb_session_name **out);
enum amb_status __wrap_amb_session_name_create(struct amb_session_names *names, const char *text,
                                               uint32_t len, struct amb_session_name **out);
enum amb_status __real_amb_subscription_deliver(struct amb_subscription *sub, uint32_t msgs,
                                                uint64_t bytes, struct amb_entry *entry);
enum amb_status __wrap_amb_subscription_deliver(struct amb_subscription *sub, uint32_t msgs,
                                                uint64_t bytes, struct amb_entry *entry);

enum amb_status __wrap_amb_session_name_create(struct amb_session_names *names, const char *text,
                                               uint32_t len, struct amb_session_name **out)
{
    return lack == NAME_LACKS ? AMB_ENOMEM : __real_amb_session_name_create(names, text, len, out);
}

enum amb_status __wrap_amb_subscription_deliver(struct amb_subscription *sub, uint32_t msgs,
                                                uint64_t bytes, struct amb_entry *entry)
{
    return lack == TABLE_LACKS ? AMB_ENOMEM
                               : __real_amb_subscription_deliver(sub, msgs, bytes, entry);
}

/* The worker of c has a take for c, and no memory to send it. So it wakes by itself and tries
 * again.
 */
static void expect_retry(struct world *w, enum lack what)
{
    struct amb_shard *shard = w->c->session->shard;
    open_with(w, NULL);
    client_join(w->c, 0, &w->q, NULL);
    lack = what;
    publish(w, 1, 2, 16);
    assert_int_equal(w->c->subs[0].last, 0);
    for (unsigned i = 0; i < 3; i++) {
        int64_t wait_ns = amb_takers_due(shard) - shard->now_ns;
        assert_in_range(wait_ns, 1, AMB_TAKE_PAUSE_NS); /* It may sleep, and no longer. */
        harness_pass(&w->h, wait_ns);
        harness_settle(&w->h);
    }
    lack = NOTHING_LACKS;
    harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
    harness_settle(&w->h);
    assert_int_equal(w->c->subs[0].last, 1);
    assert_true(amb_takers_due(shard) - shard->now_ns > AMB_NS_PER_SEC); /* ack_wait alone */
    expect_seen(w, 1, 2, 1);
    client_ack(w->c, 0, 1);
    client_release_all(w->c, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
}

static void test_a_take_without_memory_for_the_name_of_its_topic_is_tried_again(void **state)
{
    expect_retry(*state, NAME_LACKS);
}

static void test_a_take_without_memory_for_its_delivery_is_tried_again(void **state)
{
    expect_retry(*state, TABLE_LACKS);
}

/* There may be tens of thousands, and a member that lacks memory is the fault of one client. */
static void test_a_retry_looks_at_no_other_member(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = w->c->session->shard;
    open_with(w, NULL);
    client_join(w->c, 0, &w->q, NULL);
    publish(w, 1, 1, 16);
    client_ack(w->c, 0, 1);
    /* A look at all of them would find that nothing is due any more. */
    int64_t due_ns = shard->takers.due_ns;
    assert_true(due_ns > shard->now_ns + AMB_NS_PER_SEC && due_ns < INT64_MAX);
    lack = TABLE_LACKS;
    publish(w, 1, 1, 16);
    for (unsigned i = 0; i < 3; i++) {
        harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
        harness_settle(&w->h);
        assert_int_equal(shard->takers.due_ns, due_ns);
    }
    lack = NOTHING_LACKS;
    harness_pass(&w->h, AMB_TAKE_PAUSE_NS);
    harness_settle(&w->h);
    client_ack(w->c, 0, 2);
    client_release_all(w->c, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_credit_returns_with_the_acknowledgement_not_with_the_release),
        BOTH(test_what_is_not_acknowledged_in_time_comes_again_and_says_how_often),
        BOTH(test_in_progress_gives_time_anew),
        BOTH(test_in_progress_prolongs_all_that_stay_in_order),
        BOTH(test_takes_are_charged_to_their_member),
        BOTH(test_takes_past_the_limit_end_the_session),
        BOTH(test_a_cumulative_acknowledgement_settles_all_before_it),
        BOTH(test_acknowledgements_under_way_count_before_the_end),
        BOTH(test_without_acks_credit_returns_with_the_release),
        BOTH(test_lies_about_deliveries_end_the_session),
        BOTH(test_a_take_without_memory_for_the_name_of_its_topic_is_tried_again),
        BOTH(test_a_take_without_memory_for_its_delivery_is_tried_again),
        BOTH(test_a_retry_looks_at_no_other_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
