/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a ring link by itself: frames one way between two processes, and ping-pong.
 *
 *     link-ring-bench [SECONDS]
 *
 * Prints GB/s and frames/s one way for several body sizes, then half the round trip. Both sides
 * spin with sched_yield, so the figures are those of a pair of busy loops.
 */
#include "wire/base/clock.h"
#include "wire/codec/frame.h"
#include "wire/link/ring/ring.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING (UINT64_C(1) << 20)
#define ROOMS 32u /* receive buffers in turn: about the working set of a topic */

struct end {
    struct amb_link *link;
    struct amb_link_tx tx;
    struct amb_frame frame;
    uint8_t *data, *rooms;
    uint64_t room_bytes;
    unsigned room;
    bool is_busy, is_echo, is_over;
    uint64_t received;
};

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct end *e = arg;
    (void)frame;
    (void)cookie;
    (void)mem;
    *dst = e->rooms + (e->room++ % ROOMS) * e->room_bytes;
    return AMB_OK;
}

static void send_one(struct end *e)
{
    e->is_busy = amb_link_send(e->link, &e->tx) == AMB_EAGAIN;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct end *e = arg;
    (void)cookie;
    e->received += status == AMB_OK ? 1 : 0;
    if (e->is_echo && status == AMB_OK) {
        send_one(e);
    }
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    (void)arg;
    (void)kind;
    (void)handle;
    (void)value;
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct end *e = arg;
    (void)tx;
    (void)status;
    e->is_busy = false;
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct end *e = arg;
    (void)why;
    (void)text;
    e->is_over = true;
}

static void on_closed(void *arg)
{
    (void)arg;
}

static const struct amb_link_events events = {.on_frame = on_frame,
                                              .on_body = on_body,
                                              .on_flow = on_flow,
                                              .on_sent = on_sent,
                                              .on_down = on_down,
                                              .on_closed = on_closed};

static void end_init(struct end *e, uint64_t body)
{
    memset(e, 0, sizeof(*e));
    e->room_bytes = (body + 4095) / 4096 * 4096;
    if (posix_memalign((void **)&e->data, 4096, e->room_bytes) != 0 ||
        posix_memalign((void **)&e->rooms, 4096, ROOMS * e->room_bytes) != 0) {
        abort();
    }
    memset(e->data, 1, e->room_bytes);
    memset(e->rooms, 1, ROOMS * e->room_bytes);
    e->frame = (struct amb_frame){
        .type = AMB_FRAME_BATCH, .count = 1, .data_len = body - 16, .meta_len = 16, .seq = 1};
    e->tx = (struct amb_link_tx){.frame = &e->frame, .data = e->data, .meta = e->data + body - 16};
}

static void end_fini(struct end *e)
{
    (void)!amb_link_close(e->link);
    free(e->data);
    free(e->rooms);
}

/* The broker's end, in a process of its own: receives, echoes if asked to, until the peer goes. */
static void serve(struct end *e)
{
    while (!e->is_over) {
        unsigned done = amb_link_poll(e->link, 32);
        amb_link_flush(e->link);
        if (done == 0) {
            (void)sched_yield();
        }
    }
    end_fini(e);
}

static uint64_t run_stream(struct end *e, int64_t until)
{
    uint64_t sent = 0;
    while (amb_clock_monotonic_ns() < until) {
        for (int i = 0; i < 16 && !e->is_busy; i++, sent++) {
            send_one(e);
        }
        amb_link_flush(e->link);
        if (amb_link_poll(e->link, 32) == 0 && e->is_busy) {
            (void)sched_yield();
        }
    }
    return sent;
}

static uint64_t run_ping(struct end *e, int64_t until)
{
    while (amb_clock_monotonic_ns() < until) {
        uint64_t before = e->received;
        send_one(e);
        amb_link_flush(e->link);
        while (e->received == before) {
            if (amb_link_poll(e->link, 32) == 0) {
                (void)sched_yield();
            }
        }
    }
    return e->received;
}

static void run(uint64_t body, bool is_ping, double seconds)
{
    struct end e;
    end_init(&e, body);
    struct amb_ring_fds fds;
    struct amb_link *broker, *client;
    if (amb_ring_create(RING, &events, &e, &fds, &broker) != AMB_OK) {
        abort();
    }
    pid_t child = fork();
    if (child == 0) {
        /* The broker's mapping is not inherited, so the child is the client. */
        if (amb_ring_attach(RING, &fds, &events, &e, &client) != AMB_OK) {
            abort();
        }
        e.link = client;
        int64_t start = amb_clock_monotonic_ns();
        int64_t until = start + (int64_t)(seconds * 1e9);
        uint64_t n = is_ping ? run_ping(&e, until) : run_stream(&e, until);
        double s = (double)(amb_clock_monotonic_ns() - start) / 1e9;
        if (is_ping) {
            printf("ping-pong %8llu B  %8.2f us one way\n", (unsigned long long)body,
                   s / (double)n / 2 * 1e6);
        } else {
            printf("one way   %8llu B  %8.2f GB/s  %10.0f frames/s\n", (unsigned long long)body,
                   (double)n * (double)body / s / 1e9, (double)n / s);
        }
        (void)fflush(stdout);
        end_fini(&e);
        _exit(0);
    }
    (void)close(fds.memory);
    (void)close(fds.bell);
    e.link = broker;
    e.is_echo = is_ping;
    serve(&e);
    (void)waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {32, 1024, 16384, 60000, 262144, UINT64_C(8) << 20};
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        run(sizes[i], false, seconds);
    }
    run(64, true, seconds);
    run(4096, true, seconds);
    run(60000, true, seconds);
    return 0;
}
