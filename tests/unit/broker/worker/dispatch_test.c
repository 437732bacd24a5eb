/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch: a link's frames reach the right part, and frames that a client may not send end it.
 */
#include "broker/ingest/publisher.h"
#include "broker/worker/dispatch.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *c;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL);
    w->topic = harness_topic(&w->h, "t", 0);
    w->c = shard_client_create(&w->h, 0, NULL);
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

/* Others have their turns meanwhile. */
static void test_a_session_with_very_much_out_goes_over_several_turns(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    client_subscribe(w->c, 0, w->topic, NULL);
    client_subscribe(w->c, 1, w->topic, NULL);
    for (unsigned i = 0; i < AMB_SHARD_CLEAR_TURN; i++) {
        for (unsigned sub = 0; sub < 2; sub++) {
            assert_int_equal(
                amb_subscription_deliver(w->c->session->subscriptions[sub], 1, 16, NULL), AMB_OK);
        }
    }
    struct shard_client *modest = shard_client_create(&w->h, 0, NULL);
    client_close(w->c, false);
    assert_false(w->c->is_closed);
    assert_true(amb_shard_is_dirty(shard)); /* Its worker does not sleep. */
    client_close(modest, false);
    (void)harness_turn(&w->h, 0);
    assert_false(w->c->is_closed);
    (void)harness_turn(&w->h, 0);
    assert_true(w->c->is_closed && modest->is_closed);
    assert_false(amb_shard_is_dirty(shard));
}

static void test_frames_that_only_a_broker_sends_end_the_session(void **state)
{
    struct world *w = *state;
    const struct amb_frame frames[] = {
        {.type = AMB_FRAME_TOPIC, .data_len = 3},
        {.type = AMB_FRAME_DELIVER, .count = 1, .meta_len = 16},
        {.type = AMB_FRAME_MAP, .count = 1, .meta_len = 16},
        {.type = AMB_FRAME_SETTLED},
        {.type = AMB_FRAME_SEG_DROP},
    };
    for (unsigned i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct shard_client *bad = shard_client_create(&w->h, 0, NULL);
        client_send_frame(bad, &frames[i]);
        harness_settle(&w->h);
        assert_int_equal(bad->ended, 1);
        assert_int_equal(bad->ended_why, AMB_EPROTO);
        assert_true(bad->session->is_link_down);
    }
    assert_int_equal(w->c->ended, 0);
}

static void test_frames_and_values_for_what_is_not_open_are_ignored(void **state)
{
    struct world *w = *state;
    client_release_range(w->c, 3, 1, 1);
    client_release(w->c, 4, 7);
    client_want(w->c, 5, 12345);
    client_send(w->c, 6, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->c->ended, 0);
    assert_int_equal(w->c->session->frames_ignored, 2);
}

static void test_a_release_range_of_the_future_ends_the_session(void **state)
{
    struct world *w = *state;
    client_subscribe(w->c, 0, w->topic, NULL);
    client_release_range(w->c, 0, 1, 1);
    harness_settle(&w->h);
    assert_int_equal(w->c->ended_why, AMB_EPROTO);
    assert_string_equal(w->c->ended_text, "the client gives back what it was not given");
}

static void test_a_flow_value_that_is_none_of_a_clients_ends_the_session(void **state)
{
    struct world *w = *state;
    amb_link_flow(w->c->link, (enum amb_flow_kind)2, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->c->ended_why, AMB_EPROTO);
    assert_string_equal(w->c->ended_text, "a flow value that only a broker sends");
}

static void test_a_lost_link_is_reported_once_and_the_session_waits_for_its_end(void **state)
{
    struct world *w = *state;
    client_open_pub(w->c, 0, w->topic, false);
    client_subscribe(w->c, 0, w->topic, NULL);
    client_send(w->c, 0, 1, 100);
    harness_settle(&w->h);
    amb_sim_break(w->c->session->link);
    harness_settle(&w->h);
    assert_int_equal(w->c->ended, 1);
    assert_int_equal(w->c->ended_why, AMB_ELOST);
    assert_false(amb_session_has_room(w->c->session));
    /* Messages that others publish meanwhile are for it too, and go with it. */
    struct shard_client *p = shard_client_create(&w->h, 0, NULL);
    client_open_pub(p, 0, w->topic, false);
    client_send(p, 0, 1, 100);
    harness_settle(&w->h);
    assert_true(harness_used(&w->h) > 0);
    client_close(w->c, true);
    harness_settle(&w->h);
    assert_null(w->c->session);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_closing_cancels_what_waits_in_the_link(void **state)
{
    struct world *w = *state;
    struct shard_client *slow =
        shard_client_create(&w->h, 0, &(struct client_options){.link_bytes_max = 1});
    client_open_pub(w->c, 0, w->topic, false);
    client_subscribe(slow, 0, w->topic, NULL);
    for (unsigned i = 0; i < 20; i++) {
        client_send(w->c, 0, 1, 1000);
    }
    amb_link_flush(w->c->link);
    (void)harness_turn(&w->h, 0);
    assert_true(slow->session->link->queued > 10);
    assert_true(harness_used(&w->h) > 10000);
    client_close(slow, false);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_session_without_link_closes_too(void **state)
{
    struct world *w = *state;
    struct shard_client *c = shard_client_create(&w->h, 0, NULL);
    assert_true(amb_link_close(c->session->link));
    c->session->link = NULL; /* as one whose stream was never attached */
    client_subscribe(c, 0, w->topic, NULL);
    client_open_pub(w->c, 0, w->topic, false);
    client_send(w->c, 0, 1, 16);
    harness_settle(&w->h);
    assert_true(harness_used(&w->h) > 0); /* waits for the link */
    client_close(c, true);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_a_session_with_very_much_out_goes_over_several_turns),
        T(test_frames_that_only_a_broker_sends_end_the_session),
        T(test_frames_and_values_for_what_is_not_open_are_ignored),
        T(test_a_release_range_of_the_future_ends_the_session),
        T(test_a_flow_value_that_is_none_of_a_clients_ends_the_session),
        T(test_a_lost_link_is_reported_once_and_the_session_waits_for_its_end),
        T(test_closing_cancels_what_waits_in_the_link),
        T(test_a_session_without_link_closes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
