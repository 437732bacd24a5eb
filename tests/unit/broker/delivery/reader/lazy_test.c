/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy subscriptions: what comes, what it is charged, what can be asked for and for how long. A
 * publisher on shard 0, topics at home on shard 1; `near` maps there, `far` reads on shard 2.
 */
#include "broker/config/config.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/ingest/publisher.h"
#include "broker/topic/begin.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_lease.h"
#include "tests/support/shard/shard_queue.h"
#include "tests/support/shard/shard_trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "limits = { max_mapped_per_session = 100000; };\n"
    "topics = ( { match = \"kept\"; retain = { messages = 100; }; },\n"
    "           { match = \"few\"; max_messages = 10; } );\n";

static int setup(void **state)
{
    return shard_trio_setup(state, rules);
}

/* Both read the topic; credit_bytes 0: the default. */
static void begin(struct shard_trio *w, const char *name, enum amb_lazy lazy, uint64_t credit_bytes)
{
    uint32_t topic = harness_topic(&w->h, name, 1);
    const struct amb_subscription_options options = {.lazy = lazy, .credit_bytes = credit_bytes};
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->near, 0, topic, &options);
    client_subscribe(w->far, 0, topic, &options);
    harness_settle(&w->h);
}

static void send(struct shard_trio *w, unsigned batches, uint32_t count, uint64_t len)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, count, len);
        harness_settle(&w->h);
    }
}

static enum amb_status ask(struct shard_client *client, uint64_t number, uint32_t first,
                           uint64_t offset, uint64_t len)
{
    unsigned answers = client->answers;
    client_fetch(client, 0, number, first, offset, len);
    harness_settle(client->harness);
    assert_int_equal(client->answers, answers + 1);
    assert_int_equal(client->answer.seq, number * 1000 + first);
    assert_int_equal(client->answer.offset, offset);
    assert_int_equal(client->answer.data_len, client->answer.status == AMB_OK ? len : 0);
    return (enum amb_status)client->answer.status;
}

/* The message's stamp is asked for: is it that of the publisher's n-th? */
static void expect_message(struct shard_client *client, uint64_t number, uint32_t first, uint64_t n)
{
    struct client_stamp stamp;
    assert_int_equal(ask(client, number, first, 0, sizeof(stamp)), AMB_OK);
    memcpy(&stamp, client->answered, sizeof(stamp));
    assert_int_equal(stamp.number, n);
    uint64_t half;
    assert_int_equal(ask(client, number, first, 8, 8), AMB_OK);
    memcpy(&half, client->answered, sizeof(half));
    assert_int_equal(half, n);
}

static void finish(struct shard_trio *w)
{
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    assert_int_equal(harness_used(&w->h), 0);
    for (unsigned i = 0; i < w->h.count; i++) {
        assert_int_equal(w->h.shards[i].lazy.kept, 0);
    }
}

static void headers_come_and_payloads_when_they_are_asked_for(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, 0);
    send(w, 2, 3, 1000);
    struct shard_client *const readers[] = {w->near, w->far};
    for (unsigned r = 0; r < 2; r++) {
        const struct client_delivery *got = client_delivery(readers[r], 0, 2);
        assert_int_equal(got->frame.type, AMB_FRAME_LAZY);
        assert_int_equal(got->frame.meta_len, 3 * sizeof(struct amb_record));
        assert_int_equal(got->frame.data_len, 3 * amb_payload_padded(1000));
        for (uint32_t i = 0; i < 3; i++) {
            expect_message(readers[r], 2, i, 4 + i);
            expect_message(readers[r], 1, i, 1 + i);
        }
    }
    assert_int_equal(amb_stat_get(&w->h.shards[2].stats->fetches), 12);
    assert_int_equal(amb_stat_get(&w->h.shards[2].stats->fetched_bytes), 6 * 24);
    finish(w);
}

static void a_message_of_nothing_has_nothing_to_ask_for(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, 0);
    send(w, 1, 2, 0);
    assert_int_equal(w->far->subs[0].msgs, 2);
    client_fetch(w->far, 0, 1, 0, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->far->ended_why, AMB_EPROTO);
}

static void a_lazy_delivery_is_charged_its_records(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_HEADERS, 5 * sizeof(struct amb_record));
    send(w, 10, 1, 1000);
    assert_int_equal(w->far->subs[0].msgs, 5);
    client_release(w->far, 0, 2);
    harness_settle(&w->h);
    assert_int_equal(w->far->subs[0].msgs, 7);
    finish(w);
}

static void a_pinned_one_is_charged_its_payload_too(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_PIN, 3500);
    send(w, 10, 1, 1000);
    assert_int_equal(w->far->subs[0].msgs, 3);
    for (uint64_t number = 1; number <= 3; number++) {
        expect_message(w->far, number, 0, number);
    }
    client_release(w->far, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->far->subs[0].msgs, 4);
    finish(w);
}

static void what_is_not_pinned_goes_stale_from_the_oldest_on(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, 10000);
    send(w, 20, 1, 1000);
    assert_int_equal(w->far->subs[0].msgs, 20);
    assert_int_equal(ask(w->far, 1, 0, 0, 16), AMB_ESTALE);
    expect_message(w->far, 20, 0, 20);
    unsigned there = 0;
    for (uint64_t number = 1; number <= 20; number++) {
        enum amb_status status = ask(w->far, number, 0, 0, 16);
        assert_true(status == AMB_OK || (status == AMB_ESTALE && there == 0));
        there += status == AMB_OK;
    }
    assert_in_range(there, 5, 10);
    assert_in_range(amb_session_subscription(w->far->session, 0)->kept_bytes, 5000, 10000);
    /* One that is given back makes room. */
    client_release_range(w->far, 0, 20, 1);
    harness_settle(&w->h);
    assert_int_equal(ask(w->far, 20, 0, 0, 16), AMB_ESTALE);
    assert_in_range(amb_stat_get(&w->h.shards[2].stats->fetches_stale), 12, 18);
    finish(w);
}

static void memory_that_is_short_makes_stale_what_is_not_pinned(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, 0);
    client_subscribe(w->far, 1, 0, &(struct amb_subscription_options){.lazy = AMB_LAZY_PIN});
    harness_settle(&w->h);
    send(w, 3, 1, 1000);
    assert_true(amb_subscriptions_drop_kept(&w->h.shards[2]));
    assert_false(amb_subscriptions_drop_kept(&w->h.shards[2]));
    assert_int_equal(ask(w->far, 3, 0, 0, 16), AMB_ESTALE);
    expect_message(w->near, 3, 0, 3);
    client_fetch(w->far, 1, 3, 0, 0, 16);
    harness_settle(&w->h);
    assert_int_equal(w->far->answer.status, AMB_OK);
    client_drain(w->far, 1);
    finish(w);
}

static void more_than_memory_has_is_published_against_lazy_readers(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, UINT64_C(1) << 30);
    for (unsigned i = 0; i < 60; i++) {
        while (!client_may_send(w->p, 0, 1, 1 << 20)) {
            client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(1, 1 << 20));
            harness_settle(&w->h);
        }
        client_send(w->p, 0, 1, 1 << 20);
        harness_settle(&w->h);
    }
    assert_int_equal(w->far->subs[0].msgs, 60);
    assert_int_equal(w->far->subs[0].lost, 0);
    finish(w);
}

static void pins_stay_within_what_a_session_may_hold(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_PIN, 0);
    send(w, 10, 1, 30000);
    assert_in_range(w->far->subs[0].msgs, 1, 3);
    assert_in_range(w->far->session->mapped_bytes, 30000, 100000);
    client_drain(w->far, 0);
    assert_int_equal(w->far->subs[0].msgs, 10);
    assert_int_equal(w->far->subs[0].lost, 0);
    finish(w);
}

#define PINNED 50000u /* bytes of a message: one to a piece of the quota */

/* One user has both readers, and a quota of four messages. Each reader has pinned two. */
static void use_up_quota(struct shard_trio *w, struct quota_user *user)
{
    quota_user_init(user);
    quota_limit(user->account, AMB_QUOTA_MAPPED, 4 * AMB_PURSE_PIECE);
    struct shard_client *const readers[] = {w->near, w->far};
    for (unsigned r = 0; r < 2; r++) {
        readers[r]->session->mapped_max = UINT64_MAX; /* Its own limit is not in the way. */
        quota_user_owns(user, readers[r]->session);
    }
    begin(w, "a", AMB_LAZY_PIN, 0);
    send(w, 4, 1, PINNED);
    assert_int_equal(w->near->subs[0].msgs, 2);
    assert_int_equal(w->far->subs[0].msgs, 2);
}

static void end_quota(struct shard_trio *w, struct quota_user *user)
{
    client_close(w->near, false);
    client_close(w->far, false);
    harness_settle(&w->h);
    for (unsigned i = 0; i < w->h.count; i++) {
        assert_true(amb_list_is_empty(&w->h.shards[i].lazy.lacking));
    }
    quota_user_fini(user);
}

static void finish_quota(struct shard_trio *w, struct quota_user *user)
{
    finish(w);
    end_quota(w, user);
}

/* The other one gives back what it had: nothing else wakes this one, which gives back nothing. */
static void a_pinning_reader_goes_on_when_its_user_has_room_again(void **state)
{
    struct shard_trio *w = *state;
    const struct amb_shard *shard = &w->h.shards[2];
    struct quota_user user;
    use_up_quota(w, &user);
    for (unsigned i = 0; i < 3; i++) {
        int64_t wait_ns = amb_lazy_due(&w->h.shards[2]) - shard->now_ns;
        assert_in_range(wait_ns, 1, AMB_LAZY_PAUSE_NS); /* It may sleep, and no longer. */
        harness_pass(&w->h, wait_ns);
        harness_settle(&w->h);
    }
    client_drain(w->near, 0);
    assert_int_equal(w->near->subs[0].msgs, 4);
    assert_int_equal(w->far->subs[0].msgs, 2);
    harness_pass(&w->h, AMB_LAZY_PAUSE_NS);
    harness_settle(&w->h);
    assert_int_equal(w->far->subs[0].msgs, 4);
    assert_int_equal(amb_lazy_due(&w->h.shards[2]), INT64_MAX); /* Nothing is left to wait for. */
    finish_quota(w, &user);
}

/* It gives back what it had itself, and ends: a look finds nobody who waits. */
static void a_pinning_reader_that_has_gone_on_is_not_waited_for(void **state)
{
    struct shard_trio *w = *state;
    struct quota_user user;
    use_up_quota(w, &user);
    assert_in_range(amb_lazy_due(&w->h.shards[1]), 1, w->h.now_ns + AMB_LAZY_PAUSE_NS);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    harness_pass(&w->h, AMB_LAZY_PAUSE_NS);
    harness_settle(&w->h);
    assert_int_equal(amb_lazy_due(&w->h.shards[1]), INT64_MAX);
    assert_int_equal(amb_lazy_due(&w->h.shards[2]), INT64_MAX);
    finish_quota(w, &user);
}

static void a_session_that_ends_does_not_wait_for_its_quota(void **state)
{
    struct shard_trio *w = *state;
    struct quota_user user;
    use_up_quota(w, &user);
    end_quota(w, &user);
}

#define LACKING (AMB_LAZY_RETRY_TURN + 10u)

static void sessions_whose_quota_is_used_up_are_looked_at_some_a_turn(void **state)
{
    struct shard_trio *w = *state;
    struct amb_shard *shard = &w->h.shards[2];
    const struct amb_subscription_options options = {.lazy = AMB_LAZY_PIN};
    struct shard_client *readers[LACKING];
    struct quota_user user;
    use_up_quota(w, &user);
    client_close_pub(w->p, 0);
    uint32_t topic = harness_topic(&w->h, "b", 1);
    client_open_pub(w->p, 1, topic, false);
    for (unsigned i = 0; i < LACKING; i++) {
        readers[i] = shard_client_create(&w->h, 2, NULL);
        quota_user_owns(&user, readers[i]->session);
        client_subscribe(readers[i], 0, topic, &options);
    }
    harness_settle(&w->h);
    for (unsigned i = 0; i < 2; i++) { /* Each pins the first one, as it always may. */
        client_send(w->p, 1, 1, PINNED);
        harness_settle(&w->h);
    }
    harness_pass(&w->h, 2 * AMB_LAZY_PAUSE_NS);
    (void)harness_turn(&w->h, 2);
    unsigned left = 0;
    AMB_LIST_FOR_EACH (node, &shard->lazy.lacking) {
        left += AMB_CONTAINER_OF(node, struct amb_session, lack.node)->lack.due_ns <= shard->now_ns;
    }
    assert_int_equal(left, LACKING + 1 - AMB_LAZY_RETRY_TURN); /* far waits, too. */
    (void)harness_turn(&w->h, 2);
    assert_int_equal(amb_lazy_due(shard) - shard->now_ns, AMB_LAZY_PAUSE_NS - 1000);
    for (unsigned i = 0; i < LACKING; i++) {
        assert_int_equal(readers[i]->subs[0].msgs, 1);
        client_close(readers[i], false);
    }
    end_quota(w, &user);
}

static void what_was_given_back_is_stale(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_PIN, 0);
    send(w, 2, 1, 1000);
    client_release(w->far, 0, 2);
    client_fetch(w->far, 0, 2, 0, 0, 16);
    harness_settle(&w->h);
    assert_int_equal(w->far->answer.status, AMB_ESTALE);
    client_unsubscribe(w->far, 0);
    harness_settle(&w->h);
    client_fetch(w->far, 0, 2, 0, 0, 16); /* Its handle is nobody's. */
    harness_settle(&w->h);
    assert_int_equal(w->far->answer.status, AMB_ESTALE);
    assert_int_equal(w->far->ended, 0);
    client_drain(w->near, 0);
}

static void a_handle_that_is_anothers_by_now_is_stale(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_PIN, 0);
    send(w, 2, 1, 1000);
    client_drain(w->far, 0);
    const enum amb_lazy others[] = {AMB_LAZY_OFF, AMB_LAZY_HEADERS, AMB_LAZY_ON};
    for (unsigned i = 0; i < 3; i++) {
        client_unsubscribe(w->far, 0);
        harness_settle(&w->h);
        client_subscribe(w->far, 0, 0, &(struct amb_subscription_options){.lazy = others[i]});
        harness_settle(&w->h);
        client_fetch(w->far, 0, 2, 0, 0, 16);
        harness_settle(&w->h);
        assert_int_equal(w->far->answers, i + 1);
        assert_int_equal(w->far->answer.status, AMB_ESTALE);
    }
    assert_int_equal(w->far->ended, 0);
    client_drain(w->near, 0);
}

static void expect_end(struct shard_client *client, const char *what)
{
    harness_settle(client->harness);
    assert_int_equal(client->ended_why, AMB_EPROTO);
    assert_non_null(strstr(client->ended_text, what));
}

static void a_number_that_was_not_given_ends_the_session(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, 0);
    send(w, 1, 2, 1000);
    client_fetch(w->far, 0, 2, 0, 0, 16);
    expect_end(w->far, "not given");
    client_fetch(w->near, 0, 1, 2, 0, 16);
    expect_end(w->near, "not given");
}

static void bytes_that_a_message_has_not_end_the_session(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_ON, 0);
    send(w, 1, 2, 1000);
    assert_int_equal(ask(w->far, 1, 1, 984, 16), AMB_OK);
    client_fetch(w->far, 0, 1, 0, 985, 16);
    expect_end(w->far, "more than");
    client_fetch(w->near, 0, 1, 0, 1001, 1);
    expect_end(w->near, "more than");
}

static void headers_cannot_be_asked_about(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_HEADERS, 0);
    send(w, 1, 1, 1000);
    client_release_all(w->near, 0);
    harness_settle(&w->h);
    client_fetch(w->far, 0, 1, 0, 0, 16);
    expect_end(w->far, "not given");
}

static void who_asks_and_does_not_read_is_ended(void **state)
{
    struct shard_trio *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 1);
    const struct client_options narrow = {.link_bytes_max = 1000, .link_poll_frames = 1};
    struct shard_client *reader = shard_client_create(&w->h, 2, &narrow);
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(reader, 0, topic, &(struct amb_subscription_options){.lazy = AMB_LAZY_ON});
    harness_settle(&w->h);
    send(w, 1, 1, 1000);
    const struct amb_frame frame = {
        .type = AMB_FRAME_FETCH, .number = 1, .seq = 7, .data_len = 900};
    unsigned taken = 0;
    while (amb_lazy_fetch(reader->session, &frame) == AMB_OK) {
        taken++;
    }
    assert_in_range(taken, AMB_LAZY_FETCHES_MAX, AMB_LAZY_FETCHES_MAX + 2);
    assert_non_null(strstr(reader->session->broken, "more than it reads"));
    harness_settle(&w->h);
    assert_int_equal(reader->answers, taken);
    assert_int_equal(reader->session->fetches, 0);
    client_drain(reader, 0);
}

static void a_piece_of_a_batch_is_asked_for_by_its_own_count(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "kept", AMB_LAZY_ON, 0);
    send(w, 1, 10, 100);
    const struct amb_begin last = {.start = AMB_START_LAST_N, .at = 3};
    const struct amb_subscription_options options = {.lazy = AMB_LAZY_ON};
    client_subscribe_from(w->far, 1, 0, &options, &last);
    harness_settle(&w->h);
    assert_int_equal(w->far->subs[1].msgs, 3);
    const struct amb_frame *frame = &client_delivery(w->far, 1, 1)->frame;
    assert_int_equal(frame->count - frame->first - frame->rest, 3);
    client_fetch(w->far, 1, 1, 1, 0, 16);
    harness_settle(&w->h);
    struct client_stamp stamp;
    memcpy(&stamp, w->far->answered, sizeof(stamp));
    assert_int_equal(stamp.number, 9);
    client_drain(w->far, 1);
    client_drain(w->far, 0);
    client_drain(w->near, 0);
    struct amb_topic *home = harness_home(&w->h, 0);
    amb_topic_forget(home, home->log.hi);
    harness_settle(&w->h);
}

/* Its publisher has 32 slots of 64 KiB to write in place. */
static void begin_leased(struct shard_trio *w, struct client_lease *lease)
{
    begin(w, "a", AMB_LAZY_ON, 0);
    w->p->session->may_map = true;
    assert_int_equal(client_lease_open(w->p, 65536, 32, lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, lease), AMB_OK);
    harness_settle(&w->h);
}

static void leased_payloads_are_asked_for_and_hold_their_publisher_back_little(void **state)
{
    struct shard_trio *w = *state;
    struct client_lease lease;
    begin_leased(w, &lease);
    for (uint32_t slot = 0; slot < 32; slot++) {
        client_commit(w->p, 0, &lease, slot, 1, 1000);
        harness_settle(&w->h);
    }
    assert_int_equal(w->far->subs[0].msgs, 32);
    expect_message(w->far, 32, 0, 32);
    assert_int_equal(ask(w->far, 1, 0, 0, 16), AMB_OK);
    client_drain(w->far, 0);
    client_drain(w->near, 0);
    assert_true(client_is_freed(w->p, 32));
    /* With properties the records have offsets behind them. */
    const struct client_commit one = {.offset = 65536, .len = 500, .props_len = 40};
    client_commit_as(w->p, 0, &lease, &one);
    harness_settle(&w->h);
    assert_int_equal(client_delivery(w->far, 0, 33)->frame.flags, AMB_FRAME_FLAG_OFFSETS);
    expect_message(w->far, 33, 0, 33);
    client_drain(w->far, 0);
    client_drain(w->near, 0);
    client_lease_close(w->p, &lease);
    harness_settle(&w->h);
    client_lease_fini(&lease);
}

static void a_member_of_a_queue_has_its_payload_until_it_gives_it_back(void **state)
{
    struct shard_trio *w = *state;
    struct harness_queue queue;
    uint32_t topic = harness_topic(&w->h, "a", 1);
    client_open_pub(w->p, 0, topic, false);
    harness_queue_open(&w->h, 1, NULL, &queue);
    harness_queue_read(&queue, topic);
    client_join(w->far, 0, &queue,
                &(struct amb_subscription_options){.lazy = AMB_LAZY_ON, .credit_bytes = 20000});
    harness_settle(&w->h);
    send(w, 1, 4, 1000);
    assert_int_equal(client_delivery(w->far, 0, 1)->frame.type, AMB_FRAME_LAZY);
    client_say(w->far, 0, 1, 1, 1, AMB_ACK_KIND_NAK, 0);
    harness_settle(&w->h);
    const struct amb_frame *again = &client_delivery(w->far, 0, 2)->frame;
    assert_int_equal(again->type, AMB_FRAME_LAZY);
    assert_int_equal(again->attempt, 1);
    expect_message(w->far, 2, 0, 2);
    expect_message(w->far, 1, 3, 4);
    client_ack(w->far, 0, 1);
    client_ack(w->far, 0, 2);
    harness_settle(&w->h);
    expect_message(w->far, 1, 0, 1);
    client_drain(w->far, 0);
    assert_int_equal(harness_used(&w->h), 0);
    client_quit(w->far, 0, 3);
    harness_settle(&w->h);
    harness_queue_close(&queue);
}

static void a_session_that_ends_keeps_no_lazy_payload(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_LAZY_PIN, 0);
    send(w, 3, 1, 1000);
    client_drain(w->near, 0);
    assert_true(harness_used(&w->h) > 0);
    client_close(w->far, true);
    harness_settle(&w->h);
    assert_false(w->far->is_quarantined);
    assert_int_equal(harness_used(&w->h), 0);
}

static void a_whole_payload_may_come_in_place(void **state)
{
    struct shard_trio *w = *state;
    struct client_stamp stamp;
    begin(w, "a", AMB_LAZY_ON, 0);
    send(w, 1, 3, 1000);
    client_fetch(w->far, 0, 1, 2, 0, 0);  /* Maps nothing. */
    client_fetch(w->near, 0, 1, 2, 0, 0); /* Has not mapped it yet. */
    harness_settle(&w->h);
    assert_int_equal(w->far->answer.status, AMB_ENOTSUP);
    assert_int_equal(w->near->answer.status, AMB_ENOTSUP);
    client_fetch(w->near, 0, 1, 2, 0, 0);
    harness_settle(&w->h);
    assert_int_equal(w->near->answer.type, AMB_FRAME_FETCHED_MAP);
    assert_int_equal(w->near->answer.data_len, 1000);
    memcpy(&stamp, w->near->answered, sizeof(stamp));
    assert_int_equal(stamp.number, 3);
    /* From here on it is held, whatever happens. */
    assert_int_equal(w->h.shards[1].lazy.kept, 0);
    assert_false(amb_subscriptions_drop_kept(&w->h.shards[1]));
    expect_message(w->near, 1, 0, 1);
    client_drain(w->far, 0);
    client_close(w->near, true);
    harness_settle(&w->h);
    assert_true(w->near->is_quarantined);
    assert_true(harness_used(&w->h) > 0);
    client_die(w->near);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

/* Its publisher can still write it: that is for readers of its own user. */
static void another_users_lease_never_comes_in_place(void **state)
{
    struct shard_trio *w = *state;
    struct client_lease lease;
    begin_leased(w, &lease);
    w->near->session->user = 7;
    client_commit(w->p, 0, &lease, 0, 1, 50000);
    harness_settle(&w->h);
    unsigned offered = w->near->segment_count;
    for (unsigned i = 0; i < 2; i++) {
        client_fetch(w->near, 0, 1, 0, 0, 0);
        harness_settle(&w->h);
        assert_int_equal(w->near->answer.status, AMB_ENOTSUP);
        assert_int_equal(w->near->segment_count, offered); /* It is offered no segment, too. */
    }
    expect_message(w->near, 1, 0, 1);
    w->near->session->user = amb_session_publisher(w->p->session, 0)->lease_user;
    for (unsigned i = 0; i < 2; i++) {
        client_fetch(w->near, 0, 1, 0, 0, 0);
        harness_settle(&w->h);
    }
    assert_int_equal(w->near->answer.type, AMB_FRAME_FETCHED_MAP);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    client_lease_close(w->p, &lease);
    harness_settle(&w->h);
    client_lease_fini(&lease);
}

static void policies_count_what_a_lazy_delivery_takes(void **state)
{
    struct shard_trio *w = *state;
    uint32_t topic = harness_topic(&w->h, "few", 1);
    client_open_pub(w->p, 0, topic, false);
    const enum amb_slow policies[] = {AMB_SLOW_DROP_NEWEST, AMB_SLOW_LATEST, AMB_SLOW_DROP_OLDEST};
    for (uint32_t i = 0; i < 3; i++) {
        const struct amb_subscription_options options = {
            .lazy = AMB_LAZY_HEADERS, .slow = policies[i], .credit_bytes = 48};
        client_subscribe(w->far, i, topic, &options);
    }
    harness_settle(&w->h);
    send(w, 30, 1, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w->far->subs[i].msgs, 3);
        client_drain(w->far, i);
    }
    send(w, 1, 1, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        client_drain(w->far, i);
        assert_int_equal(w->far->subs[i].msgs + w->far->subs[i].lost, 31);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, shard_trio_teardown)
    const struct CMUnitTest tests[] = {
        TEST(headers_come_and_payloads_when_they_are_asked_for),
        TEST(a_message_of_nothing_has_nothing_to_ask_for),
        TEST(a_lazy_delivery_is_charged_its_records),
        TEST(a_pinned_one_is_charged_its_payload_too),
        TEST(what_is_not_pinned_goes_stale_from_the_oldest_on),
        TEST(memory_that_is_short_makes_stale_what_is_not_pinned),
        TEST(more_than_memory_has_is_published_against_lazy_readers),
        TEST(pins_stay_within_what_a_session_may_hold),
        TEST(a_pinning_reader_goes_on_when_its_user_has_room_again),
        TEST(a_pinning_reader_that_has_gone_on_is_not_waited_for),
        TEST(a_session_that_ends_does_not_wait_for_its_quota),
        TEST(sessions_whose_quota_is_used_up_are_looked_at_some_a_turn),
        TEST(what_was_given_back_is_stale),
        TEST(a_handle_that_is_anothers_by_now_is_stale),
        TEST(a_number_that_was_not_given_ends_the_session),
        TEST(bytes_that_a_message_has_not_end_the_session),
        TEST(headers_cannot_be_asked_about),
        TEST(who_asks_and_does_not_read_is_ended),
        TEST(a_piece_of_a_batch_is_asked_for_by_its_own_count),
        TEST(leased_payloads_are_asked_for_and_hold_their_publisher_back_little),
        TEST(a_member_of_a_queue_has_its_payload_until_it_gives_it_back),
        TEST(a_session_that_ends_keeps_no_lazy_payload),
        TEST(a_whole_payload_may_come_in_place),
        TEST(another_users_lease_never_comes_in_place),
        TEST(policies_count_what_a_lazy_delivery_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
