/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which a turn tells clients, and receipts that wait for a frame. The links are the
 * test's: they note when they are flushed.
 */
#include "broker/session/session.h"
#include "broker/worker/tell.h"
#include "tests/support/shard/shard_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct noted {
    struct amb_link link;
    struct amb_link *former;
    struct amb_session *session;
};

static struct noted pub, sub;
static const struct noted *flushed[8];
static unsigned flushes;
static bool is_burst_short, is_full;

static void note_flush(struct amb_link *link)
{
    assert_true(flushes < 8);
    flushed[flushes++] = AMB_CONTAINER_OF(link, struct noted, link);
    link->queued = 0;
    link->is_pending = link->is_blocked = false;
    if (is_burst_short) {
        link->is_pending = true;
        link->is_blocked = is_full;
    }
}

static void note_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle,
                      uint64_t value)
{
    (void)link;
    (void)kind;
    (void)handle;
    (void)value;
}

static const struct amb_link_ops ops = {.flush = note_flush, .flow = note_flow};

static void take(struct noted *noted, struct amb_session *session)
{
    *noted = (struct noted){.link = {.ops = &ops}, .former = session->link, .session = session};
    session->link = &noted->link;
    session->is_watched = true;
}

static void give(struct noted *noted)
{
    noted->session->link = noted->former;
    noted->session->is_watched = false;
}

static int setup(void **state)
{
    struct shard_pair *w = shard_pair_begin(1, NULL);
    harness_settle(&w->h);
    take(&pub, w->p->session);
    take(&sub, w->s->session);
    flushes = 0;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    give(&pub);
    give(&sub);
    return shard_pair_teardown(state);
}

/* The end of a turn, so long after the last one. Returns how many links were flushed. */
static unsigned turn_after(struct shard_pair *w, int64_t ns)
{
    flushes = 0;
    w->h.shards[0].now_ns += ns;
    amb_tell_all(&w->h.shards[0]);
    return flushes;
}

static void receipt(struct noted *noted)
{
    amb_session_flow(noted->session, AMB_FLOW_ACCEPTED, 0, 1);
}

/* A request and its reply, until the broker expects them. */
static void talk(struct shard_pair *w)
{
    for (unsigned i = 0; i < AMB_TELL_REPLIES_MANY; i++) {
        receipt(&pub);
        assert_int_equal(turn_after(w, AMB_NS_PER_MS), 1);
        pub.link.queued = 1;
        assert_int_equal(turn_after(w, 20 * AMB_NS_PER_US), 1);
    }
}

static void test_frames_leave_before_counters(void **state)
{
    struct shard_pair *w = *state;
    for (unsigned i = 0; i < 2; i++) { /* One of the two stands first in the list. */
        struct noted *asks = i == 0 ? &pub : &sub, *gets = i == 0 ? &sub : &pub;
        receipt(asks);
        gets->link.queued = 1;
        assert_int_equal(turn_after(w, AMB_NS_PER_MS), 2);
        assert_ptr_equal(flushed[0], gets);
        assert_ptr_equal(flushed[1], asks);
    }
}

static void test_a_link_to_which_nothing_was_said_is_left_alone(void **state)
{
    assert_int_equal(turn_after(*state, AMB_NS_PER_MS), 0);
    receipt(&pub);
    assert_int_equal(turn_after(*state, AMB_NS_PER_MS), 1);
    assert_int_equal(turn_after(*state, AMB_NS_PER_MS), 0);
}

static void test_receipts_of_a_dialogue_wait_for_the_reply(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    talk(w);
    for (unsigned i = 0; i < 10; i++) {
        receipt(&pub);
        assert_int_equal(turn_after(w, AMB_NS_PER_MS), 0);
        assert_int_equal(amb_tell_due(shard), shard->now_ns + AMB_TELL_SOON_NS);
        pub.link.queued = 1;
        assert_int_equal(turn_after(w, 20 * AMB_NS_PER_US), 1);
        assert_int_equal(amb_tell_due(shard), INT64_MAX);
    }
}

static void test_receipts_leave_when_no_reply_comes(void **state)
{
    struct shard_pair *w = *state;
    talk(w);
    receipt(&pub);
    assert_int_equal(turn_after(w, AMB_NS_PER_MS), 0);
    receipt(&pub); /* Others do not make it later. */
    assert_int_equal(turn_after(w, AMB_TELL_SOON_NS - 1), 0);
    assert_int_equal(turn_after(w, 1), 1);
    assert_int_equal(amb_tell_due(&w->h.shards[0]), INT64_MAX);
    /* The next ones wait for nothing. */
    receipt(&pub);
    assert_int_equal(turn_after(w, AMB_NS_PER_US), 1);
}

static void test_what_a_client_may_wait_for_is_not_kept_back(void **state)
{
    struct shard_pair *w = *state;
    talk(w);
    receipt(&pub);
    assert_int_equal(turn_after(w, AMB_NS_PER_MS), 0);
    amb_session_flow(pub.session, AMB_FLOW_WINDOW, 0, 1);
    assert_int_equal(turn_after(w, AMB_NS_PER_US), 1);
}

static void test_a_frame_that_comes_late_is_no_reply(void **state)
{
    struct shard_pair *w = *state;
    talk(w);
    pub.session->word.replies = 1;
    receipt(&pub);
    assert_int_equal(turn_after(w, AMB_NS_PER_MS), 1);
    pub.link.queued = 1;
    assert_int_equal(turn_after(w, AMB_TELL_SOON_NS), 1);
    assert_int_equal(pub.session->word.replies, 0);
}

/* Receipts of so many batches, one a turn. Returns how many flushes there were. */
static unsigned receipts(struct shard_pair *w, unsigned count, int64_t gap_ns)
{
    unsigned all = 0;
    for (unsigned i = 0; i < count; i++) {
        receipt(&pub);
        all += turn_after(w, gap_ns);
    }
    return all;
}

static void test_receipts_of_a_steady_flow_wait_for_each_other(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    const int64_t gap = 100 * AMB_NS_PER_US;
    assert_int_equal(receipts(w, AMB_RHYTHM_MIN, gap), AMB_RHYTHM_MIN);
    assert_in_range(receipts(w, 1000, gap), 80, 100);
    /* Turns without a receipt do not make them later, and are none of the flow. */
    while (receipts(w, 1, gap) != 0) {
    }
    int64_t due = amb_tell_due(shard);
    assert_in_range(due, shard->now_ns, shard->now_ns + AMB_RHYTHM_HOLD_NS);
    while (shard->now_ns + gap < due) {
        assert_int_equal(turn_after(w, gap), 0);
    }
    assert_int_equal(turn_after(w, due - shard->now_ns), 1);
    assert_int_equal(amb_tell_due(shard), INT64_MAX);
    /* Nothing came for as long: the next ones wait after twice as many. */
    assert_int_equal(receipts(w, 2 * AMB_RHYTHM_MIN, gap), 2 * AMB_RHYTHM_MIN);
    assert_int_equal(receipts(w, 1, gap), 0);
    /* A window, or a frame, takes them along at once. */
    amb_session_flow(pub.session, AMB_FLOW_WINDOW, 0, 1);
    assert_int_equal(turn_after(w, gap), 1);
    assert_int_equal(receipts(w, 1, gap), 0);
    pub.link.queued = 1;
    assert_int_equal(turn_after(w, gap), 1);
    assert_int_equal(amb_tell_due(shard), INT64_MAX);
}

/* As after a burst of most bytes or units: no edge will tell to go on. */
static void test_a_flush_that_left_something_goes_on(void **state)
{
    struct shard_pair *w = *state;
    receipt(&pub);
    is_burst_short = true;
    assert_int_equal(turn_after(w, AMB_NS_PER_MS), 1);
    assert_int_equal(turn_after(w, AMB_NS_PER_US), 1);
    is_burst_short = false;
    assert_int_equal(turn_after(w, AMB_NS_PER_US), 1);
    assert_int_equal(turn_after(w, AMB_NS_PER_US), 0);
    /* Of a full socket an edge tells. */
    receipt(&pub);
    is_burst_short = is_full = true;
    assert_int_equal(turn_after(w, AMB_NS_PER_MS), 1);
    assert_int_equal(turn_after(w, AMB_NS_PER_US), 0);
    is_burst_short = is_full = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_frames_leave_before_counters),
        T(test_a_link_to_which_nothing_was_said_is_left_alone),
        T(test_receipts_of_a_dialogue_wait_for_the_reply),
        T(test_receipts_leave_when_no_reply_comes),
        T(test_what_a_client_may_wait_for_is_not_kept_back),
        T(test_a_frame_that_comes_late_is_no_reply),
        T(test_receipts_of_a_steady_flow_wait_for_each_other),
        T(test_a_flush_that_left_something_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
