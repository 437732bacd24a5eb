/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch: a link's frames reach the right part, and frames that a client may not send end it.
 */
#include "broker/worker/dispatch.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_frames_that_only_a_broker_sends_end_the_session),
        T(test_frames_and_values_for_what_is_not_open_are_ignored),
        T(test_a_release_range_of_the_future_ends_the_session),
        T(test_a_flow_value_that_is_none_of_a_clients_ends_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
