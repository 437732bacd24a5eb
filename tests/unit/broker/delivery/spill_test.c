/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers that spill, in host memory. The messages that they are behind hold up nobody and are no
 * more than spill_max. Leased ones are moved out of their publisher's slots; every loss is counted.
 * The same from GPU memory is spill_gpu_test.c.
 */
#include "broker/delivery/spill.h"
#include "broker/topic/begin.h"
#include "broker/topic/topic_tail.h"

#include "broker/config/config.h"
#include "broker/delivery/slow.h"
#include "broker/shard/entry.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOTES_MAX 8u
#define SLOT UINT64_C(65536)
#define SLOTS 16u

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"few\"; max_messages = 10; spill_max = \"1M\"; },\n"
    "           { match = \"small\"; max_bytes = \"64K\"; spill_max = \"256K\"; },\n"
    "           { match = \"drop\"; full = \"drop-oldest\"; max_bytes = \"64K\";\n"
    "             spill_max = \"8M\"; },\n"
    "           { match = \"tight\"; full = \"reject\"; max_messages = 10; },\n"
    "           { match = \"past\"; max_messages = 100; retain = { messages = 1000; }; },\n"
    "           { match = \"kept\"; slow = \"spill\"; retain = { messages = 100000; }; },\n"
    "           { match = \"large\"; spill_max = \"1G\"; } );\n";
static const struct client_options maps = {.may_map = true, .answers_offers = true};
static const struct amb_subscription_options spills = {.slow = AMB_SLOW_SPILL, .credit_msgs = 1};
static const struct amb_subscription_options drops = {.slow = AMB_SLOW_DROP_OLDEST,
                                                      .credit_msgs = 1};
static const struct amb_subscription_options blocks = {
    .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 100000};

/* Reads in order, and adds up what is missing. */
struct reader {
    struct shard_client *client;
    uint64_t got, lost, next; /* next: number that is due */
    bool is_refused_some;     /* of messages that were published, and so have no number */
    enum amb_loss why;
};

struct world {
    struct shard_harness h;
    struct shard_client *p;
    struct reader slow, fast, other; /* of the last, the home's and the last shard */
    struct client_lease lease;
    uint64_t sent;
};

static struct amb_note notes[NOTES_MAX];
static unsigned note_count;

static void noted(struct amb_shard *shard, const struct amb_note *note)
{
    (void)shard;
    if (note_count < NOTES_MAX && note->kind >= AMB_NOTE_SPILL_BEGIN) {
        notes[note_count++] = *note;
    }
}

static void read_message(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                         const struct client_stamp *stamp)
{
    struct reader *reader = client->user;
    uint64_t lost = index == frame->first ? frame->lost : 0;
    uint64_t seq = frame->seq + index - frame->first;
    assert_int_equal(seq, reader->next + lost);
    assert_true(stamp->number == seq || (reader->is_refused_some && stamp->number > seq));
    assert_true(lost == 0 || frame->status == (int)reader->why);
    reader->next = seq + 1;
    reader->got++;
    reader->lost += lost;
}

static void reader_init(struct world *w, struct reader *reader, unsigned shard)
{
    reader->client = shard_client_create(&w->h, shard, &maps);
    reader->client->on_message = read_message;
    reader->client->user = reader;
    reader->next = 1;
    reader->why = AMB_LOSS_SLOW;
}

static void make(void **state, unsigned shards)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, shards, rules);
    w->h.upcalls.noted = noted;
    w->p = shard_client_create(&w->h, 0, &maps);
    w->lease.fd = -1;
    reader_init(w, &w->slow, shards - 1);
    reader_init(w, &w->fast, shards / 2);
    reader_init(w, &w->other, shards - 1);
    note_count = 0;
    *state = w;
}

static int setup(void **state)
{
    make(state, 1);
    return 0;
}

static int setup_three(void **state)
{
    make(state, 3);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    client_lease_fini(&w->lease);
    harness_fini(&w->h);
    free(w);
    return 0;
}

static uint32_t begin(struct world *w, const char *name)
{
    uint32_t topic = harness_topic(&w->h, name, w->h.count / 2);
    client_open_pub(w->p, 0, topic, true);
    client_subscribe(w->slow.client, 0, topic, &spills);
    harness_settle(&w->h);
    return topic;
}

/* A fast reader gives back at once. */
static void publish(struct world *w, unsigned batches, uint64_t len)
{
    for (unsigned i = 0; i < batches; i++) {
        while (!client_may_send(w->p, 0, 1, len)) { /* Memory is short. */
            client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(1, len));
            harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
            harness_settle(&w->h);
        }
        client_send(w->p, 0, 1, len);
        w->sent++;
        harness_settle(&w->h);
        if (w->fast.client->subs[0].is_open) {
            client_release_all(w->fast.client, 0);
        }
    }
    harness_settle(&w->h);
}

static struct amb_topic *topic_of_slow(struct world *w, uint32_t topic)
{
    return harness_topic_on(&w->h, topic, w->slow.client->shard);
}

static void finish(struct world *w, struct reader *reader)
{
    client_drain(reader->client, 0);
    assert_int_equal(reader->next, w->sent + 1);
    assert_int_equal(reader->got + reader->lost, w->sent);
}

static void test_who_has_stopped_gets_everything_and_holds_up_nobody(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "few");
    client_subscribe(w->fast.client, 0, topic, &blocks);
    harness_settle(&w->h);
    publish(w, 500, 100); /* The log may have ten. */
    assert_int_equal(w->fast.got, 500);
    assert_int_equal(w->slow.got, 1);
    assert_int_equal(w->p->settle_count, 500);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost + w->fast.lost, 0);
    assert_int_equal(topic_of_slow(w, topic)->log.msgs, 0);
}

static void test_beyond_its_limit_it_loses_the_oldest_and_is_told_how_many(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "small");
    client_subscribe(w->fast.client, 0, topic, &blocks);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 300; i++) {
        publish(w, 1, 4000);
        struct amb_topic_tail tail;
        amb_topic_tail(topic_of_slow(w, topic), &tail);
        assert_true(amb_topic_tail_bytes(topic_of_slow(w, topic), &tail) <= 256 << 10);
        assert_true(topic_of_slow(w, topic)->log.bytes <= 256 << 10);
    }
    assert_int_equal(w->fast.got, 300);
    assert_true(topic_of_slow(w, topic)->spill.lost > 200);
    finish(w, &w->slow);
    assert_true(w->slow.lost == topic_of_slow(w, topic)->spill.lost);
    assert_true(w->slow.got > 40); /* all that fits */
}

static void test_one_large_message_is_kept_whatever_the_limit(void **state)
{
    struct world *w = *state;
    begin(w, "small");
    publish(w, 1, 100);
    publish(w, 1, 1 << 20);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
}

static void test_others_are_bound_by_the_log_as_ever(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "few");
    client_subscribe(w->other.client, 0, topic, &drops);
    harness_settle(&w->h);
    publish(w, 200, 100);
    finish(w, &w->slow);
    finish(w, &w->other);
    assert_int_equal(w->slow.lost, 0);
    assert_true(w->other.lost >= 185 && w->other.lost <= 190);
    assert_true(harness_home(&w->h, topic)->counts.msgs_dropped > 0 ||
                topic_of_slow(w, topic)->counts.msgs_dropped > 0);
}

/* More in one turn than the log may hold, before it was lent. */
static void test_a_burst_reaches_it_on_another_worker(void **state)
{
    struct world *w = *state;
    begin(w, "few");
    for (unsigned i = 0; i < 100; i++) {
        client_send(w->p, 0, 1, 100);
        w->sent++;
    }
    harness_settle(&w->h);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
}

/* Messages in the tail are there for it, too. */
static void test_who_reads_history_is_not_ended_for_what_others_leave_out(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "past");
    client_subscribe(w->fast.client, 0, topic, &drops);
    harness_settle(&w->h);
    w->fast.client->subs[0].is_open = false; /* It is not fast at all. */
    publish(w, 90, 20000);
    w->fast.client->subs[0].is_open = true;
    struct amb_subscription_options ends = {.slow = AMB_SLOW_DISCONNECT, .credit_msgs = 1};
    client_subscribe_from(w->other.client, 0, topic, &ends,
                          &(struct amb_begin){.start = AMB_START_FIRST});
    harness_settle(&w->h);
    w->fast.client->subs[0].is_open = false;
    publish(w, 60, 20000);
    w->fast.client->subs[0].is_open = true;
    assert_int_equal(w->other.client->ended, 0);
    assert_int_equal(w->other.got, 1);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
    client_drain(w->other.client, 0);
    client_drain(w->fast.client, 0);
    assert_int_equal(w->other.got, 150);
    amb_topic_forget(harness_home(&w->h, topic), harness_home(&w->h, topic)->log.hi);
}

static void test_what_only_they_want_is_no_reason_to_reject(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "tight");
    publish(w, 100, 100);
    assert_int_equal(harness_home(&w->h, topic)->counts.msgs_rejected, 0);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
}

static void test_what_a_holding_reader_wants_is(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "tight");
    struct amb_subscription_options stopped = blocks;
    stopped.credit_msgs = 1;
    client_subscribe(w->other.client, 0, topic, &stopped);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 100; i++) {
        client_send(w->p, 0, 1, 30000); /* No borrower has all of it. */
        harness_settle(&w->h);
    }
    uint64_t rejected = harness_home(&w->h, topic)->counts.msgs_rejected;
    assert_true(rejected > 0);
    client_drain(w->slow.client, 0);
    client_drain(w->other.client, 0);
    client_drain(w->slow.client, 0); /* Messages that were not lent before. */
    assert_int_equal(w->slow.got, w->other.got);
    assert_int_equal(w->slow.got + rejected, 100);
    assert_int_equal(w->slow.lost + w->other.lost, 0);
}

/* Its own publisher's slots ---------------------------------------------------------------------
 */

static void lease(struct world *w)
{
    assert_int_equal(client_lease_open(w->p, SLOT, SLOTS, &w->lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &w->lease), AMB_OK);
}

/* In slots that are free by now. */
static void commit(struct world *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        while (w->sent >= SLOTS && !client_is_freed(w->p, w->sent - SLOTS + 1)) {
            harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
            harness_settle(&w->h);
        }
        client_commit(w->p, 0, &w->lease, (uint32_t)(w->sent++ % SLOTS), 1, 60000);
        harness_settle(&w->h);
        harness_pass(&w->h, AMB_SPILL_AFTER_NS + 1);
        harness_settle(&w->h);
    }
}

static void test_it_keeps_no_slots(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "t");
    lease(w);
    commit(w, 3 * SLOTS);
    assert_int_equal(w->p->ended, 0);
    assert_true(client_is_freed(w->p, w->p->commits));
    assert_int_equal(w->slow.got, 1);
    const struct amb_topic *there = topic_of_slow(w, topic);
    assert_true(there->spill.msgs >= 3 * SLOTS - 2);
    assert_int_equal(there->spill.bytes, there->spill.msgs * 60000);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
}

static void test_a_little_behind_it_reads_in_place(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "t");
    lease(w);
    for (unsigned i = 0; i < 4; i++) {
        client_commit(w->p, 0, &w->lease, (uint32_t)w->sent++, 1, 60000);
        harness_settle(&w->h);
    }
    assert_int_equal(topic_of_slow(w, topic)->spill.msgs, 0);
    client_drain(w->slow.client, 0);
    harness_pass(&w->h, AMB_SPILL_AFTER_NS + 1);
    harness_settle(&w->h);
    assert_int_equal(topic_of_slow(w, topic)->spill.msgs, 0);
    finish(w, &w->slow);
}

static void test_more_than_a_little_is_moved_at_once(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "t");
    assert_int_equal(client_lease_open(w->p, 4 * SLOT, 8, &w->lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &w->lease), AMB_OK);
    for (unsigned i = 0; i < 8; i++) {
        client_commit(w->p, 0, &w->lease, (uint32_t)w->sent++, 1, 250000);
        harness_settle(&w->h);
    }
    assert_true(topic_of_slow(w, topic)->spill.msgs >= 2);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
}

/* Its publisher's worker was slow, and so its reader cannot have had it before. */
static void test_time_counts_from_when_it_came_to_the_log(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "t");
    const struct amb_topic *there = topic_of_slow(w, topic);
    lease(w);
    commit(w, 1); /* This is all its credit. */
    client_commit(w->p, 0, &w->lease, (uint32_t)w->sent++, 1, 60000);
    (void)shard_client_turn(w->p);
    (void)harness_turn(&w->h, 0);
    assert_false(amb_mpsc_is_empty(&w->h.shards[1].inbox.posted)); /* It has been handed over. */
    harness_pass(&w->h, 2 * AMB_SPILL_AFTER_NS);
    harness_settle(&w->h);
    assert_int_equal(there->log.next_seq, 3);
    assert_int_equal(there->spill.msgs, 0);
    harness_pass(&w->h, AMB_SPILL_AFTER_NS + 1);
    harness_settle(&w->h);
    assert_int_equal(there->spill.msgs, 1);
    assert_true(client_is_freed(w->p, 2));
    finish(w, &w->slow);
}

static void test_the_clock_of_the_day_may_be_set(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "t");
    const struct amb_topic *there = topic_of_slow(w, topic);
    lease(w);
    commit(w, 1);
    client_commit(w->p, 0, &w->lease, (uint32_t)w->sent++, 1, 60000);
    harness_settle(&w->h);
    w->h.real_ahead_ns += 3600 * AMB_NS_PER_SEC; /* It has not waited that long. */
    client_commit(w->p, 0, &w->lease, (uint32_t)w->sent++, 1, 60000);
    harness_settle(&w->h);
    assert_int_equal(there->spill.msgs, 0);
    w->h.real_ahead_ns -= 2 * 3600 * AMB_NS_PER_SEC; /* Nor is it due in two hours. */
    harness_pass(&w->h, AMB_SPILL_AFTER_NS + 1);
    harness_settle(&w->h);
    assert_int_equal(there->spill.msgs, 2);
    assert_true(client_is_freed(w->p, 3));
    finish(w, &w->slow);
}

/* A reader of history is not looked after: near the end, others may long have passed the messages
 * that it comes to. */
static void test_who_comes_from_further_back_keeps_no_slots(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "small");
    lease(w);
    for (unsigned i = 0; i < 4; i++) {
        client_commit(w->p, 0, &w->lease, (uint32_t)w->sent++, 1, 60000);
        harness_settle(&w->h);
    }
    w->other.next = 2; /* The first is out. */
    client_subscribe_from(w->other.client, 0, topic, &spills,
                          &(struct amb_begin){.start = AMB_START_SEQ, .at = w->other.next});
    harness_settle(&w->h);
    assert_int_equal(w->other.got, 1);
    client_drain(w->slow.client, 0);
    assert_int_equal(w->slow.got, 4);
    while (w->other.got < 2) { /* There is one more, and that is near. */
        client_release_all(w->other.client, 0);
        harness_settle(&w->h);
    }
    assert_int_equal(topic_of_slow(w, topic)->spill.msgs, 0);
    assert_false(client_is_freed(w->p, 4));
    harness_pass(&w->h, AMB_SPILL_AFTER_NS + 1);
    harness_settle(&w->h);
    assert_true(client_is_freed(w->p, 4));
    client_drain(w->other.client, 0);
    assert_int_equal(w->other.got, 3);
    assert_int_equal(w->other.lost, 0);
}

/* One who cannot spill does not keep those beside it from it. */
static void test_beside_one_that_has_stopped_it_loses_nothing_either(void **state)
{
    struct world *w = *state;
    struct amb_subscription_options stopped = blocks;
    stopped.credit_msgs = 1;
    uint32_t topic = begin(w, "drop");
    w->other.why = AMB_LOSS_TRIMMED;
    client_subscribe(w->other.client, 0, topic, &stopped);
    harness_settle(&w->h);
    client_want(w->p, 0, 64 * client_batch_bytes(1, 4000));
    harness_settle(&w->h);
    for (unsigned i = 0; i < 64; i++) { /* More in one turn than a borrower would have. */
        assert_true(client_may_send(w->p, 0, 1, 4000));
        client_send(w->p, 0, 1, 4000);
        w->sent++;
    }
    harness_settle(&w->h);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
    client_drain(w->other.client, 0);
    assert_int_equal(w->other.got + w->other.lost, 64);
    assert_true(w->other.lost > 40);
}

static void test_its_beginning_and_its_end_are_told(void **state)
{
    struct world *w = *state;
    begin(w, "t");
    lease(w);
    commit(w, SLOTS);
    for (unsigned i = 0; i < 3; i++) {
        harness_pass(&w->h, AMB_SLOW_TICK_NS + 1);
        harness_settle(&w->h);
    }
    assert_int_equal(note_count, 1);
    assert_int_equal(notes[0].kind, AMB_NOTE_SPILL_BEGIN);
    assert_int_equal(notes[0].client_id, w->slow.client->id);
    finish(w, &w->slow);
    for (unsigned i = 0; i < 3; i++) {
        harness_pass(&w->h, AMB_SLOW_TICK_NS + 1);
        harness_settle(&w->h);
    }
    assert_int_equal(note_count, 2);
    assert_int_equal(notes[1].kind, AMB_NOTE_SPILL_END);
    assert_true(notes[1].spilled >= SLOTS - 2);
}

/* Ends ------------------------------------------------------------------------------------------
 */

static void test_when_it_goes_all_it_kept_goes(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "few");
    publish(w, 300, 1000);
    assert_true(topic_of_slow(w, topic)->log.msgs > 250);
    client_unsubscribe(w->slow.client, 0);
    client_release_all(w->slow.client, 0);
    harness_settle(&w->h);
    assert_int_equal(topic_of_slow(w, topic)->log.msgs, 0);
    assert_int_equal(topic_of_slow(w, topic)->spill.readers, 0);
    client_subscribe(w->other.client, 0, topic, &drops);
    harness_settle(&w->h);
    w->other.next = w->sent + 1;
    publish(w, 100, 100);
    client_drain(w->other.client, 0);
    assert_true(w->other.lost > 80);
}

static void test_where_memory_is_short_it_gives_way(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "large");
    client_subscribe(w->fast.client, 0, topic, &blocks);
    harness_settle(&w->h);
    w->fast.is_refused_some = w->slow.is_refused_some = w->h.count > 1;
    publish(w, 2000, 24000); /* 48 MB, where there are 24 */
    w->sent = harness_home(&w->h, topic)->log.next_seq - 1;
    assert_true(w->sent == 2000 || (w->h.count > 1 && w->sent > 1800));
    assert_int_equal(w->fast.got, w->sent);
    finish(w, &w->slow);
    assert_true(w->slow.lost > 800 && w->slow.got > 100);
}

static void test_leased_messages_give_way_too(void **state)
{
    struct world *w = *state;
    begin(w, "large");
    lease(w);
    commit(w, 30 * SLOTS); /* 30 MiB */
    while (!client_is_freed(w->p, w->p->commits)) {
        harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
        harness_settle(&w->h);
    }
    finish(w, &w->slow);
    assert_true(w->slow.lost > 50 && w->slow.got > 100);
}

static void test_who_begins_in_history_spills_when_it_has_come_near_the_end(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "kept", w->h.count / 2);
    client_open_pub(w->p, 0, topic, true);
    publish(w, 200, 16000); /* 3.2 MB */
    struct amb_subscription_options by_topic = {.credit_msgs = 50};
    client_subscribe_from(w->slow.client, 0, topic, &by_topic,
                          &(struct amb_begin){.start = AMB_START_FIRST});
    harness_settle(&w->h);
    client_drain(w->slow.client, 0);
    assert_int_equal(w->slow.got, 200);
    publish(w, 400, 16000); /* It does not give back, and nobody waits. */
    assert_int_equal(w->p->pubs[0].accepted, 600);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
    client_unsubscribe(w->slow.client, 0);
    harness_settle(&w->h);
    amb_topic_forget(harness_home(&w->h, topic), harness_home(&w->h, topic)->log.hi);
}

int main(void)
{
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, setup, teardown),                                        \
        cmocka_unit_test_setup_teardown(name, setup_three, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_who_has_stopped_gets_everything_and_holds_up_nobody),
        TEST(test_beyond_its_limit_it_loses_the_oldest_and_is_told_how_many),
        TEST(test_one_large_message_is_kept_whatever_the_limit),
        TEST(test_others_are_bound_by_the_log_as_ever),
        TEST(test_a_burst_reaches_it_on_another_worker),
        cmocka_unit_test_setup_teardown(
            test_who_reads_history_is_not_ended_for_what_others_leave_out, setup, teardown),
        TEST(test_what_only_they_want_is_no_reason_to_reject),
        TEST(test_what_a_holding_reader_wants_is),
        TEST(test_it_keeps_no_slots),
        TEST(test_a_little_behind_it_reads_in_place),
        TEST(test_more_than_a_little_is_moved_at_once),
        cmocka_unit_test_setup_teardown(test_time_counts_from_when_it_came_to_the_log, setup_three,
                                        teardown),
        TEST(test_the_clock_of_the_day_may_be_set),
        cmocka_unit_test_setup_teardown(test_who_comes_from_further_back_keeps_no_slots, setup,
                                        teardown),
        TEST(test_beside_one_that_has_stopped_it_loses_nothing_either),
        TEST(test_its_beginning_and_its_end_are_told),
        TEST(test_when_it_goes_all_it_kept_goes),
        TEST(test_where_memory_is_short_it_gives_way),
        TEST(test_leased_messages_give_way_too),
        TEST(test_who_begins_in_history_spills_when_it_has_come_near_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
