/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sim link: the suite of all links with and without limits, and the things that only it can do.
 */
#include "tests/support/link/link_peer.h"
#include "tests/support/link/link_suite.h"
#include "wire/codec/frame.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* Memory of a GPU, here: what only the pair's copy may touch. */
static uint8_t far_from[64], far_to[64];
static unsigned far_copies, far_bodies;
static bool is_far_broken, has_far_room;
static enum amb_status far_status;

static bool copy_far(void *to, const void *from, uint64_t len)
{
    far_copies++;
    memcpy(to, from, len);
    return !(is_far_broken && to == far_to);
}

static enum amb_status on_far_frame(void *arg, const struct amb_frame *frame, void **dst,
                                    void **cookie, struct amb_link_mem **mem)
{
    uint8_t *body = arg;
    (void)mem;
    assert_int_equal(amb_frame_body_len(frame), 64 + 16);
    *dst = *cookie = body;
    return AMB_OK;
}

static enum amb_status on_far_device(void *arg, const struct amb_frame *frame, const void *meta,
                                     uint64_t len, void **dst, void **cookie)
{
    uint8_t *body = arg;
    assert_int_equal(frame->flags, AMB_FRAME_FLAG_DEVICE);
    assert_int_equal(len, 61);
    if (!has_far_room) {
        return AMB_ENOTSUP;
    }
    memcpy(body, meta, 16);
    *dst = far_to;
    *cookie = body;
    return AMB_OK;
}

static enum amb_status on_far_body(void *arg, void *cookie, enum amb_status status)
{
    assert_ptr_equal(arg, cookie);
    far_bodies++;
    far_status = status;
    return AMB_OK;
}

static void on_far_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)arg;
    (void)tx;
    assert_int_equal(status, AMB_OK);
}

static void on_far_down(void *arg, enum amb_status why, const char *text)
{
    (void)arg;
    (void)text;
    assert_int_equal(why, AMB_ELOST);
}

static const struct amb_link_events far_events = {
    .on_frame = on_far_frame,
    .on_device = on_far_device,
    .on_body = on_far_body,
    .on_sent = on_far_sent,
    .on_down = on_far_down,
};

/* A batch of 61 bytes out of such memory; the padding's end lies with the meta. */
static void send_far(struct amb_link *ends[2])
{
    uint8_t meta[3 + 16] = {9, 9, 9, 61};
    const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                    .flags = AMB_FRAME_FLAG_DEVICE,
                                    .count = 1,
                                    .data_len = 64,
                                    .meta_len = 16};
    struct amb_link_tx tx = {
        .frame = &frame, .data = far_from, .meta = meta, .data_pad = 3, .is_device = true};
    assert_int_equal(amb_link_send(ends[0], &tx), AMB_EAGAIN);
    amb_link_flush(ends[0]);
    (void)amb_link_poll(ends[1], 64);
}

static void test_device_memory_goes_where_its_receiver_has_room(void **state)
{
    uint8_t body[80] = {0};
    struct amb_link *ends[2];
    void *args[2] = {body, body};
    (void)state;
    make_with(&(struct amb_sim_options){.copy = copy_far}, &far_events, args, ends);
    assert_true(ends[0]->takes_cuda && ends[1]->takes_cuda);
    memset(far_from, 7, sizeof(far_from));
    send_far(ends); /* No room: the whole body, in host memory. */
    assert_int_equal(far_bodies, 1);
    assert_int_equal(far_status, AMB_OK);
    assert_int_equal(body[60], 7);
    assert_int_equal(body[61], 9);
    assert_int_equal(body[64], 61);
    assert_int_equal(far_to[0], 0);
    has_far_room = true;
    send_far(ends);
    assert_int_equal(far_bodies, 2);
    assert_int_equal(body[0], 61);
    assert_memory_equal(far_to, far_from, 61);
    assert_int_equal(far_to[61], 0);
    const struct amb_frame frame = {.type = AMB_FRAME_DELIVER,
                                    .flags = AMB_FRAME_FLAG_DEVICE,
                                    .count = 1,
                                    .data_len = 64,
                                    .meta_len = 16};
    const uint8_t meta[16] = {61};
    struct amb_link_tx tx = {.frame = &frame,
                             .data = far_from,
                             .meta = meta,
                             .data_pad = 3,
                             .is_device = true,
                             .is_pad_apart = true};
    has_far_room = false;
    memset(body, 0xff, sizeof(body));
    assert_int_equal(amb_link_send(ends[0], &tx), AMB_EAGAIN);
    amb_link_flush(ends[0]);
    (void)amb_link_poll(ends[1], 64);
    assert_memory_equal(body, far_from, 61);
    assert_memory_equal(body + 61, "\0\0\0", 3);
    assert_memory_equal(body + 64, meta, 16);
    has_far_room = true;
    is_far_broken = true;
    far_bodies = 2;
    send_far(ends);
    assert_int_equal(far_bodies, 3);
    assert_int_equal(far_status, AMB_ELOST);
    (void)amb_link_poll(ends[1], 64);
    assert_true(ends[1]->is_down);
    assert_true(amb_link_close(ends[0]) && amb_link_close(ends[1]));
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
        cmocka_unit_test(test_device_memory_goes_where_its_receiver_has_room),
    };
    return link_suite_run(&limited) + link_suite_run(&tiny) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
