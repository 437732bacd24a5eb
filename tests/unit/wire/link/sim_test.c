/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sim link: the suite of all links with and without limits, and what only it can do.
 */
#include "tests/support/link_peer.h"
#include "tests/support/link_suite.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void make_with(const struct amb_sim_options *options, const struct amb_link_events *events,
                      void *args[2], struct amb_link *out[2])
{
    const struct amb_link_events *both[2] = {events, events};
    assert_int_equal(amb_sim_create(options, both, args, out), AMB_OK);
}

static void make_limited(struct link_suite_pair *pair, const struct amb_link_events *events,
                         void *args[2])
{
    make_with(&(struct amb_sim_options){.bytes_max = 1 << 20, .poll_frames = 3}, events, args,
              pair->end);
}

static void make_tiny(struct link_suite_pair *pair, const struct amb_link_events *events,
                      void *args[2])
{
    make_with(&(struct amb_sim_options){.bytes_max = 1, .poll_frames = 1}, events, args, pair->end);
}

static void test_poll_frames_bounds_one_poll(void **state)
{
    struct link_peer client, broker;
    struct amb_link *ends[2];
    void *args[2] = {&client, &broker};
    (void)state;
    link_peer_init(&client, &broker, false);
    link_peer_init(&broker, &client, true);
    make_with(&(struct amb_sim_options){.poll_frames = 2}, &link_peer_events, args, ends);
    client.link = ends[0];
    broker.link = ends[1];
    for (unsigned n = 0; n < 5; n++) {
        (void)link_peer_send(&client, AMB_FRAME_BATCH, 64);
    }
    assert_int_equal(amb_link_poll(ends[1], 64), 0);
    amb_link_flush(ends[0]);
    assert_int_equal(client.settled_ok, 5);
    assert_int_equal(amb_link_poll(ends[1], 64), 2);
    assert_int_equal(amb_link_poll(ends[1], 1), 1);
    assert_false(amb_link_arm(ends[1], false));
    assert_int_equal(amb_link_poll(ends[1], 64), 2);
    assert_true(amb_link_arm(ends[1], false));
    link_peer_close(&client);
    link_peer_close(&broker);
    link_peer_fini(&client);
    link_peer_fini(&broker);
}

static void test_break_loses_what_was_on_its_way(void **state)
{
    struct link_peer client, broker;
    struct amb_link *ends[2];
    void *args[2] = {&client, &broker};
    (void)state;
    link_peer_init(&client, &broker, false);
    link_peer_init(&broker, &client, true);
    make_with(&(struct amb_sim_options){0}, &link_peer_events, args, ends);
    client.link = ends[0];
    broker.link = ends[1];
    (void)link_peer_send(&client, AMB_FRAME_BATCH, 64);
    (void)link_peer_send(&broker, AMB_FRAME_DELIVER, 64);
    amb_link_flush(ends[0]);
    amb_sim_break(ends[1]);
    assert_int_equal(broker.downs, 0);
    (void)amb_link_poll(ends[1], 64);
    assert_int_equal(broker.downs, 1);
    assert_int_equal(broker.down_status, AMB_ELOST);
    assert_int_equal(broker.settled_lost, 1);
    assert_int_equal(broker.frames, 0);
    assert_int_equal(client.downs, 0);
    link_peer_close(&broker);
    (void)amb_link_poll(ends[0], 64);
    assert_int_equal(client.down_status, AMB_ELOST);
    link_peer_close(&client);
    link_peer_fini(&client);
    link_peer_fini(&broker);
}

int main(void)
{
    static const struct link_suite_factory limited = {.name = "sim, 1 MiB",
                                                      .make = make_limited,
                                                      .delivers_before_down = true,
                                                      .flow_overtakes = true};
    static const struct link_suite_factory tiny = {.name = "sim, one frame",
                                                   .make = make_tiny,
                                                   .delivers_before_down = true,
                                                   .flow_overtakes = true};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poll_frames_bounds_one_poll),
        cmocka_unit_test(test_break_loses_what_was_on_its_way),
    };
    return link_suite_run(&limited) + link_suite_run(&tiny) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
