/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late acknowledgements: of deliveries whose time is over, wherever their messages are by then.
 */
#include "broker/delivery/acks/former.h"

#include "broker/delivery/acks/queue_late.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/acks/taker.h"
#include "tests/unit/broker/delivery/acks/queue_world.h"

#define WAIT_NS (30 * AMB_NS_PER_SEC)

static bool lacks_takes;

struct amb_take *__real_amb_take_get(struct amb_shard *shard);
struct amb_take *__wrap_amb_take_get(struct amb_shard *shard);

struct amb_take *__wrap_amb_take_get(struct amb_shard *shard)
{
    return lacks_takes ? NULL : __real_amb_take_get(shard);
}

/* That members have sent home. */
static unsigned late_acks, takes_home;

void __real_amb_take_post(struct amb_shard *from, struct amb_shard *to, struct amb_mail *mail,
                          amb_mail_fn fn);
void __wrap_amb_take_post(struct amb_shard *from, struct amb_shard *to, struct amb_mail *mail,
                          amb_mail_fn fn);

void __wrap_amb_take_post(struct amb_shard *from, struct amb_shard *to, struct amb_mail *mail,
                          amb_mail_fn fn)
{
    late_acks += fn == amb_queue_late_ack;
    __real_amb_take_post(from, to, mail, fn);
}

void __real_amb_take_go_home(struct amb_shard *from, struct amb_take *take, enum amb_take_end end);
void __wrap_amb_take_go_home(struct amb_shard *from, struct amb_take *take, enum amb_take_end end);

void __wrap_amb_take_go_home(struct amb_shard *from, struct amb_take *take, enum amb_take_end end)
{
    takes_home += end == AMB_TAKE_LEFT;
    __real_amb_take_go_home(from, take, end);
}

static struct amb_taker *taker_of(const struct shard_client *client)
{
    return amb_session_subscription(client->session, 0)->taker;
}

static void time_is_over(struct world *w)
{
    harness_pass(&w->h, WAIT_NS + AMB_NS_PER_SEC);
    harness_settle(&w->h);
}

/* So many messages are settled by late ACKs, as the queue and its worker count them. */
static void expect_settled_late(const struct world *w, uint64_t msgs)
{
    assert_int_equal(harness_queue(&w->q)->settled_late, msgs);
    assert_int_equal(amb_stat_get(&w->h.shards[w->where].stats->msgs_settled_late), msgs);
}

/* Nothing is left, and nothing comes any more. */
static void expect_rest(struct world *w, const struct shard_client *client, uint64_t last)
{
    time_is_over(w);
    time_is_over(w);
    assert_int_equal(client->subs[0].last, last);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    assert_int_equal(amb_queue_out(harness_queue(&w->q)), 0); /* All credit is back. */
    assert_int_equal(harness_queue(&w->q)->kept_msgs, 0);
}

static void test_a_late_ack_settles_what_the_member_has_again(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 3, 16);
    time_is_over(w);
    assert_int_equal(w->a->subs[0].last, 2);
    client_ack(w->a, 0, 1);
    assert_int_equal(taker_of(w->a)->late, 3);
    expect_settled_late(w, 0); /* They are the member's yet. */
    expect_rest(w, w->a, 2);
    expect_settled_late(w, 3);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(taker_of(w->a)->formers.known.count, 1); /* The second one, unanswered. */
}

static void test_an_ack_of_the_second_delivery_changes_nothing_behind_a_late_ack(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 3});
    publish(w, 1, 3, 16);
    time_is_over(w);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0); /* twice */
    client_ack(w->a, 0, 2);
    client_release_all(w->a, 0);
    publish(w, 1, 3, 16); /* There is credit for them. */
    assert_int_equal(w->a->subs[0].last, 3);
    client_ack(w->a, 0, 3);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 3);
}

/* Some of a delivery: the others come again, as two deliveries around it. */
static void test_a_late_ack_of_a_part_settles_that_part_alone(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 3, 16);
    time_is_over(w);
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    time_is_over(w);
    assert_int_equal(w->a->subs[0].last, 4);
    assert_int_equal(client_delivery(w->a, 0, 3)->frame.seq, 1);
    assert_int_equal(client_count(w->a, 0, 3), 1);
    assert_int_equal(client_delivery(w->a, 0, 4)->frame.seq, 3);
    assert_int_equal(client_count(w->a, 0, 4), 1);
    client_ack(w->a, 0, 2); /* late once more, and it has one that is settled */
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 4);
    expect_settled_late(w, 3); /* each once */
}

/* a has it first, b then. */
static void give_to_another(struct world *w, const struct amb_queue_options *options)
{
    open_with(w, options);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 4});
    publish(w, 1, 2, 16);
    client_join(w->b, 0, &w->q, NULL);
    time_is_over(w);
    assert_int_equal(w->b->subs[0].last, 2); /* one each */
    client_ack(w->a, 0, 1);
}

static void test_a_late_ack_settles_what_another_member_has(void **state)
{
    struct world *w = *state;
    give_to_another(w, NULL);
    client_ack(w->b, 0, 1); /* in vain */
    client_ack(w->b, 0, 2);
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    expect_rest(w, w->b, 2);
    assert_int_equal(w->a->subs[0].last, 1);
    expect_seen(w, 1, 2, 2);
}

static void test_a_member_refuses_in_vain_messages_that_were_acknowledged_late(void **state)
{
    struct world *w = *state;
    give_to_another(w, NULL);
    client_say(w->b, 0, 1, 0, 1, AMB_ACK_KIND_NAK, 0);
    client_say(w->b, 0, 2, 0, 1, AMB_ACK_KIND_NAK, AMB_NS_PER_SEC);
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    expect_rest(w, w->b, 2);
    assert_int_equal(w->a->subs[0].last, 1);
}

static void test_messages_that_were_acknowledged_late_do_not_die(void **state)
{
    struct world *w = *state;
    give_to_another(w, &(struct amb_queue_options){
                           .ack = AMB_ACK_EXPLICIT, .ack_wait_ns = WAIT_NS, .max_deliver = 2});
    client_say(w->b, 0, 1, 0, 1, AMB_ACK_KIND_TERM, 0);
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    expect_rest(w, w->b, 2); /* The other one has come as often as it may. */
    assert_int_equal(harness_queue(&w->q)->dead, 0);
}

/* There is no memory when the ACKs come. The first one is of messages of both members. */
static void test_late_acks_need_no_memory_where_members_have_the_messages(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 8});
    publish(w, 2, 4, 16);
    client_join(w->b, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 8});
    time_is_over(w);
    uint64_t last[2] = {w->a->subs[0].last, w->b->subs[0].last};
    assert_true(last[0] > 2 && last[1] > 0); /* Each has a part of both. */
    lacks_takes = true;
    client_ack(w->a, 0, 1);
    client_ack(w->a, 0, 2);
    lacks_takes = false;
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    expect_rest(w, w->b, last[1]);
    assert_int_equal(w->a->subs[0].last, last[0]);
    expect_settled_late(w, 8);
    expect_seen(w, 1, 8, 2);
}

/* ACKs of parts: the first one is of messages of both members, the others of one each. */
static void test_late_acks_of_one_batch_add_up(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 8});
    publish(w, 1, 4, 16);
    client_join(w->b, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 8});
    time_is_over(w);
    assert_int_equal(w->a->subs[0].last, 2);
    assert_int_equal(w->b->subs[0].last, 1); /* two each */
    client_say(w->a, 0, 1, 1, 2, AMB_ACK_KIND_ACK, 0);
    const struct amb_take *one =
        AMB_CONTAINER_OF(amb_idmap_any(&harness_queue(&w->q)->again), struct amb_take, again);
    const struct amb_take *other = AMB_CONTAINER_OF(one->kin.next, struct amb_take, kin);
    assert_ptr_not_equal(one, other);
    assert_ptr_equal(one->late, other->late);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_ACK, 0);
    client_say(w->a, 0, 1, 3, 1, AMB_ACK_KIND_ACK, 0);
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    expect_rest(w, w->b, 1);
    assert_int_equal(w->a->subs[0].last, 2);
    expect_settled_late(w, 4);
}

/* The member that has them leaves, and they are given to nobody. */
static void
test_messages_that_were_acknowledged_late_stay_settled_when_their_member_leaves(void **state)
{
    struct world *w = *state;
    give_to_another(w, NULL);
    client_quit(w->b, 0, 0);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 1);
}

static void test_a_late_ack_settles_what_the_queue_keeps(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_EXPLICIT,
                                             .ack_wait_ns = WAIT_NS,
                                             .backoff_count = 1,
                                             .backoff_ns = {200 * AMB_NS_PER_SEC}});
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 8});
    publish(w, 4, 2, 16);
    time_is_over(w);
    const struct amb_queue *queue = harness_queue(&w->q);
    assert_int_equal(queue->kept_msgs, 8);
    client_ack(w->a, 0, 2);
    expect_settled_late(w, 2);
    assert_int_equal(queue->kept_msgs, 6);
    assert_int_equal(queue->takes, 3);
    client_say(w->a, 0, 3, 1, 1, AMB_ACK_KIND_ACK, 0);
    assert_int_equal(queue->kept_msgs, 5);
    client_release_all(w->a, 0);
    publish(w, 1, 2, 16); /* as much credit as that */
    assert_int_equal(w->a->subs[0].last, 5);
    client_ack(w->a, 0, 5);
    client_release_all(w->a, 0);
    harness_pass(&w->h, 201 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    uint64_t from = 5;
    ack_all(w->a, &from);
    assert_int_equal(w->a->subs[0].msgs, 8 + 2 + 5);
    expect_seen(w, 3, 4, 1);
    expect_seen(w, 5, 5, 2);
    expect_seen(w, 6, 6, 1);
    expect_rest(w, w->a, from);
}

static void test_a_late_nak_term_or_in_progress_changes_nothing(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 3, 1, 16);
    time_is_over(w);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_NAK, AMB_NS_PER_SEC);
    client_say(w->a, 0, 3, 0, 1, AMB_ACK_KIND_IN_PROGRESS, 0);
    client_term(w->a, 0, 2, "late");
    assert_int_equal(w->a->subs[0].last, 6);
    assert_int_equal(harness_queue(&w->q)->takes, 3);
    assert_int_equal(harness_queue(&w->q)->dead, 0);
    time_is_over(w);
    assert_int_equal(w->a->subs[0].last, 9);
    uint64_t from = 0;
    ack_all(w->a, &from);
    expect_rest(w, w->a, 9);
    expect_settled_late(w, 0); /* Its ACKs of what it has again were in time. */
}

static void open_cumulative(struct world *w)
{
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_CUMULATIVE, .ack_wait_ns = WAIT_NS});
}

static void test_a_late_cumulative_ack_settles_all_former_deliveries_before_it(void **state)
{
    struct world *w = *state;
    open_cumulative(w);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 4, 2, 16);
    time_is_over(w);
    client_say(w->a, 0, 3, 0, 1, AMB_ACK_KIND_ACK, 0);
    client_release_all(w->a, 0);
    time_is_over(w);
    assert_int_equal(client_delivery(w->a, 0, 9)->frame.seq, 6);
    assert_int_equal(w->a->subs[0].msgs, 8 + 8 + 3);
    client_ack(w->a, 0, w->a->subs[0].last);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, w->a->subs[0].last);
}

/* The refusal is in vain, for another delivery has the message. Yet no later ACK means it. */
static void test_a_cumulative_ack_does_not_settle_messages_that_were_refused_late(void **state)
{
    struct world *w = *state;
    open_cumulative(w);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 3, 1, 16);
    time_is_over(w);
    client_say(w->a, 0, 2, 0, 1, AMB_ACK_KIND_NAK, 0);
    client_ack(w->a, 0, 3);
    time_is_over(w);
    assert_int_equal(w->a->subs[0].last, 7);
    assert_int_equal(client_delivery(w->a, 0, 7)->frame.seq, 2);
    client_ack(w->a, 0, 7);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 7);
}

/* More deliveries than go home in one turn, of one message each. */
#define MANY (AMB_FORMERS_TURN + 100u)

/* a has had them, and has all of them again. */
static void call_many_back(struct world *w)
{
    open_cumulative(w);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 2 * MANY});
    publish(w, MANY, 1, 16);
    amb_taker_recall(taker_of(w->a));
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 2 * MANY);
    assert_int_equal(taker_of(w->a)->formers.known.count, MANY);
}

static void ack_many(struct world *w)
{
    client_send_frame(
        w->a, &(struct amb_frame){
                  .type = AMB_FRAME_ACK, .number = MANY, .count = 1, .status = AMB_ACK_KIND_ACK});
}

static void test_one_ack_of_many_former_deliveries_goes_home_in_several_turns(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    call_many_back(w);
    ack_many(w);
    const struct amb_idmap *known = &taker_of(w->a)->formers.known;
    (void)shard_client_turn(w->a);
    unsigned turns = 0;
    for (uint64_t had = known->count; had > 0; turns++) {
        assert_in_range(turns, 0, 20);
        (void)harness_turn(&w->h, 0);
        assert_in_range(had - known->count, 0,
                        AMB_FORMERS_TURN + 1); /* and the one that it names */
        assert_true(known->count == 0 || amb_takers_due(shard) <= shard->now_ns);
        had = known->count;
    }
    assert_true(turns >= 2);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 2 * MANY);
}

/* The ACK has settled that delivery, though home has not heard of it. */
static void test_a_refusal_behind_a_cumulative_ack_changes_nothing(void **state)
{
    struct world *w = *state;
    call_many_back(w);
    ack_many(w);
    client_say(w->a, 0, MANY - 2, 0, 1, AMB_ACK_KIND_NAK, 0);
    client_say(w->a, 0, MANY - 3, 0, 1, AMB_ACK_KIND_ACK, 0);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 2 * MANY);
}

static void test_a_member_that_leaves_behind_a_cumulative_ack_has_settled_all(void **state)
{
    struct world *w = *state;
    call_many_back(w);
    client_release_all(w->a, 0); /* It ends at once. */
    harness_settle(&w->h);
    ack_many(w);
    (void)shard_client_turn(w->a);
    while (taker_of(w->a)->formers.known.count == MANY) {
        (void)harness_turn(&w->h, 0);
    }
    assert_true(taker_of(w->a)->formers.known.count > 0);
    client_quit(w->a, 0, 0);
    assert_null(amb_session_subscription(w->a->session, 0));
    client_join(w->b, 0, &w->q, NULL);
    expect_rest(w, w->b, 0);
}

/* The turn has sent as many home as it may, for an ACK of all that a had first. b waits. */
static void spend_turn(struct world *w, bool holds)
{
    call_many_back(w);
    client_join(w->b, 0, &w->q, NULL);
    if (!holds) {
        client_release_all(w->a, 0);
    }
    harness_settle(&w->h);
    ack_many(w);
    (void)shard_client_turn(w->a);
    late_acks = takes_home = 0;
    while (taker_of(w->a)->formers.known.count == MANY) {
        (void)harness_turn(&w->h, 0);
    }
}

static void end_subscription(struct world *w)
{
    w->a->subs[0].is_open = false;
    amb_subscription_end(amb_session_subscription(w->a->session, 0), NULL, NULL);
}

static void expect_turn_is_spent(void)
{
    assert_in_range(late_acks, AMB_FORMERS_TURN, AMB_FORMERS_TURN + 1); /* The ACK names one. */
    assert_int_equal(takes_home, 0);                                    /* They are behind. */
}

static void expect_all_home(struct world *w)
{
    while (!amb_list_is_empty(&w->h.shards[0].takers.settling)) {
        unsigned had = late_acks + takes_home;
        (void)harness_turn(&w->h, 0);
        assert_in_range(late_acks + takes_home - had, 1, AMB_FORMERS_TURN);
    }
    assert_int_equal(late_acks, MANY);
    assert_int_equal(takes_home, MANY);
    expect_rest(w, w->b, 0);
}

static void test_a_member_that_leaves_sends_no_more_home_in_one_turn(void **state)
{
    struct world *w = *state;
    spend_turn(w, false);
    end_subscription(w);
    assert_null(amb_session_subscription(w->a->session, 0));
    expect_turn_is_spent();
    assert_int_equal(w->a->session->formers, 0); /* Nobody is charged for the others. */
    expect_all_home(w);
    assert_int_equal(harness_used(&w->h), 0);
}

/* It is there until it gives them back. */
static void test_a_member_that_leaves_and_holds_deliveries_sends_no_more_either(void **state)
{
    struct world *w = *state;
    spend_turn(w, true);
    end_subscription(w);
    expect_turn_is_spent();
    amb_taker_recall(taker_of(w->a)); /* It has nothing to call back. */
    client_release_range(w->a, 0, 1, MANY);
    expect_all_home(w);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_null(amb_session_subscription(w->a->session, 0));
    assert_int_equal(w->a->session->formers, 0);
}

static void test_a_session_that_ends_leaves_late_acks_to_the_next_turns(void **state)
{
    struct world *w = *state;
    spend_turn(w, true);
    client_close(w->a, false);
    expect_turn_is_spent();
    expect_all_home(w);
}

static void test_at_the_end_of_a_worker_all_late_acks_go_home(void **state)
{
    struct world *w = *state;
    spend_turn(w, false);
    end_subscription(w);
    expect_turn_is_spent();
    amb_formers_finish(&w->h.shards[0]);
    assert_true(amb_list_is_empty(&w->h.shards[0].takers.settling));
    expect_all_home(w);
}

static void test_late_acks_settle_messages_that_an_operator_calls_back(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 3, 16);
    amb_taker_recall(taker_of(w->a));
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 2);
    client_ack(w->a, 0, 1);
    client_release_all(w->a, 0);
    expect_rest(w, w->a, 2);
}

/* The client of a may have fewer former deliveries from here on. Returns how many. *had: the limit
 * of its heap before. */
static uint64_t limit_formers(struct world *w, uint64_t *had)
{
    struct amb_heap_account *heap = &w->a->session->heap;
    *had = heap->limit;
    heap->limit = 8 * heap->bytes;
    uint64_t most =
        heap->limit / AMB_FORMERS_HEAP_SHARE / (sizeof(struct amb_take) + AMB_HEAP_OVERHEAD);
    assert_in_range(most, 4, 100);
    return most;
}

/* A message may be released before it is acknowledged. One that is held is not forgotten. */
static void test_deliveries_that_are_released_are_forgotten_first(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 1000});
    struct amb_heap_account *heap = &w->a->session->heap;
    const struct amb_idmap *known = &taker_of(w->a)->formers.known;
    uint64_t limit;
    const uint64_t most = limit_formers(w, &limit);
    publish(w, (unsigned)most + 1, 1, 16);
    client_release(w->a, 0, 1);
    harness_settle(&w->h);
    time_is_over(w); /* 1 is forgotten for the last one. */
    assert_int_equal(known->count, most);
    assert_int_equal(w->a->subs[0].last, 2 * most + 2);
    time_is_over(w); /* All that are noted are held: there is no room for others. */
    assert_int_equal(known->count, most);
    assert_int_equal(w->a->subs[0].last, 3 * most + 3);
    client_release_range(w->a, 0, 2, 2);
    for (uint64_t i = 1; i <= most + 1; i++) {
        client_ack(w->a, 0, i);
    }
    assert_int_equal(known->count, 0);
    assert_true(heap->bytes <= heap->limit);
    time_is_over(w);
    assert_int_equal(w->a->subs[0].last, 3 * most + 4);
    assert_int_equal(client_delivery(w->a, 0, 3 * most + 4)->frame.seq, 1);
    client_ack(w->a, 0, 3 * most + 4);
    client_release_all(w->a, 0);
    heap->limit = limit;
    expect_rest(w, w->a, 3 * most + 4);
}

/* All are held but three, and there is room for no more. One more then is over. */
static void test_the_delivery_that_was_released_first_is_forgotten_first(void **state)
{
    struct world *w = *state;
    uint64_t limit;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 1000});
    const struct amb_taker *taker = taker_of(w->a);
    const uint64_t most = limit_formers(w, &limit);
    publish(w, (unsigned)most, 1, 16);
    time_is_over(w);
    assert_int_equal(taker->formers.known.count, most);
    for (uint64_t i = 2; i <= 4; i++) { /* 1 is held. */
        client_release_range(w->a, 0, i, 1);
        harness_settle(&w->h);
    }
    for (uint64_t i = most + 1; i < 2 * most; i++) {
        client_ack(w->a, 0, i);
    }
    time_is_over(w);
    assert_int_equal(taker->formers.known.count, most);
    assert_non_null(amb_former_find(taker, 1));
    assert_null(amb_former_find(taker, 2));
    assert_non_null(amb_former_find(taker, 3));
    assert_non_null(amb_former_find(taker, 4));
    assert_non_null(amb_former_find(taker, 2 * most));
    client_ack(w->a, 0, 2 * most);
    client_release_all(w->a, 0);
    w->a->session->heap.limit = limit;
    expect_rest(w, w->a, 2 * most + 1);
}

/* Its ACKs are cumulative, and an older delivery is held. */
static void test_a_held_delivery_keeps_no_later_one_from_being_forgotten(void **state)
{
    struct world *w = *state;
    uint64_t limit;
    open_cumulative(w);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 1000});
    const struct amb_taker *taker = taker_of(w->a);
    const uint64_t most = limit_formers(w, &limit);
    publish(w, (unsigned)most, 1, 16);
    time_is_over(w);
    client_release_range(w->a, 0, 2, 1);
    harness_settle(&w->h);
    time_is_over(w);
    assert_int_equal(taker->formers.known.count, most);
    assert_null(amb_former_find(taker, 2));
    assert_non_null(amb_former_find(taker, most + 1));
    client_ack(w->a, 0, 3 * most);
    client_release_all(w->a, 0);
    w->a->session->heap.limit = limit;
    expect_rest(w, w->a, 3 * most);
}

/* Each of many members would else have a share of its own, and takes none. */
static void test_members_of_a_session_have_one_share_of_its_heap(void **state)
{
    struct world *w = *state;
    const struct amb_subscription_options options = {.credit_msgs = 1000};
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &options);
    client_join(w->a, 1, &w->q, &options);
    const struct amb_session *session = w->a->session;
    uint64_t limit;
    const uint64_t most = limit_formers(w, &limit);
    const struct amb_idmap *first = &amb_session_subscription(session, 0)->taker->formers.known;
    const struct amb_idmap *second = &amb_session_subscription(session, 1)->taker->formers.known;
    publish(w, (unsigned)(2 * most), 1, 16);
    time_is_over(w);
    assert_true(first->count > 0);
    assert_int_equal(first->count + second->count, most);
    client_quit(w->a, 1, 0);
    client_release_all(w->a, 1);
    harness_settle(&w->h);
    assert_int_equal(session->formers, first->count); /* The other one may have its part. */
    w->a->session->heap.limit = limit;
}

/* One of the entry's, and not each that it was cut into. */
static void test_a_late_ack_is_kept_for_the_take_that_it_is_of(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 4});
    publish(w, 1, 2, 16);
    client_join(w->b, 0, &w->q, NULL);
    time_is_over(w);
    assert_int_equal(w->b->subs[0].last, 2); /* one each */
    client_say(w->a, 0, 1, 1, 1, AMB_ACK_KIND_ACK, 0);
    const struct amb_take *one =
        AMB_CONTAINER_OF(amb_idmap_any(&harness_queue(&w->q)->again), struct amb_take, again);
    const struct amb_take *other = AMB_CONTAINER_OF(one->kin.next, struct amb_take, kin);
    assert_ptr_not_equal(one, other);
    assert_int_equal((one->late != NULL) + (other->late != NULL), 1);
    client_ack(w->b, 0, 1);
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    expect_rest(w, w->b, 2);
}

static void test_a_late_ack_of_more_than_was_given_ends_the_session(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 2, 16);
    time_is_over(w);
    client_say(w->a, 0, 1, 1, 2, AMB_ACK_KIND_ACK, 0);
    assert_int_equal(w->a->ended, 1);
    assert_int_equal(w->a->ended_why, AMB_EPROTO);
}

static void test_a_late_ack_for_a_queue_that_has_gone_changes_nothing(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    publish(w, 1, 2, 16);
    time_is_over(w);
    harness_queue_close(&w->q);
    client_ack(w->a, 0, 1);
    client_ack(w->a, 0, 2);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

/* Its credit takes it twice as long as it has: it gets on, and has each message some times. */
static void test_a_member_slower_than_its_credit_makes_progress(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, &(struct amb_subscription_options){.credit_msgs = 10});
    publish(w, 40, 1, 16);
    uint64_t from = 0;
    while (from < w->a->subs[0].last) {
        harness_pass(&w->h, 6 * AMB_NS_PER_SEC); /* for one message */
        harness_settle(&w->h);
        client_ack(w->a, 0, ++from);
        client_release(w->a, 0, from);
        harness_settle(&w->h);
        assert_true(from <= 40 * 4);
    }
    expect_rest(w, w->a, from);
    for (uint64_t i = 1; i <= 40; i++) {
        assert_true(w->seen[i] >= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_late_ack_settles_what_the_member_has_again),
        BOTH(test_an_ack_of_the_second_delivery_changes_nothing_behind_a_late_ack),
        BOTH(test_a_late_ack_of_a_part_settles_that_part_alone),
        BOTH(test_a_late_ack_settles_what_another_member_has),
        BOTH(test_a_member_refuses_in_vain_messages_that_were_acknowledged_late),
        BOTH(test_messages_that_were_acknowledged_late_do_not_die),
        BOTH(test_messages_that_were_acknowledged_late_stay_settled_when_their_member_leaves),
        BOTH(test_late_acks_need_no_memory_where_members_have_the_messages),
        BOTH(test_late_acks_of_one_batch_add_up),
        BOTH(test_a_late_ack_settles_what_the_queue_keeps),
        BOTH(test_a_late_nak_term_or_in_progress_changes_nothing),
        BOTH(test_a_late_cumulative_ack_settles_all_former_deliveries_before_it),
        BOTH(test_a_cumulative_ack_does_not_settle_messages_that_were_refused_late),
        BOTH(test_one_ack_of_many_former_deliveries_goes_home_in_several_turns),
        BOTH(test_a_refusal_behind_a_cumulative_ack_changes_nothing),
        BOTH(test_a_member_that_leaves_behind_a_cumulative_ack_has_settled_all),
        BOTH(test_a_member_that_leaves_sends_no_more_home_in_one_turn),
        BOTH(test_a_member_that_leaves_and_holds_deliveries_sends_no_more_either),
        BOTH(test_a_session_that_ends_leaves_late_acks_to_the_next_turns),
        BOTH(test_at_the_end_of_a_worker_all_late_acks_go_home),
        BOTH(test_late_acks_settle_messages_that_an_operator_calls_back),
        BOTH(test_deliveries_that_are_released_are_forgotten_first),
        BOTH(test_the_delivery_that_was_released_first_is_forgotten_first),
        BOTH(test_a_held_delivery_keeps_no_later_one_from_being_forgotten),
        BOTH(test_members_of_a_session_have_one_share_of_its_heap),
        BOTH(test_a_late_ack_is_kept_for_the_take_that_it_is_of),
        BOTH(test_a_late_ack_of_more_than_was_given_ends_the_session),
        BOTH(test_a_late_ack_for_a_queue_that_has_gone_changes_nothing),
        BOTH(test_a_member_slower_than_its_credit_makes_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
