/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of the stream link over TCP on the loopback interface between two processes. Bodies of
 * several sizes go one way, and 64 B frames to and fro. Both sides poll and sched_yield, as loops
 * with `spin` do.
 *
 *     link-stream-bench [BODY_BYTES COUNT]
 */
#include "wire/base/clock.h"
#include "wire/codec/frame.h"
#include "wire/link/stream/stream.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARENA (UINT64_C(128) << 20)
#define QUEUED_MAX 256u

struct side {
    struct amb_link *link;
    uint8_t *arena; /* bodies are sent from here, and land here */
    uint64_t arena_at;
    struct amb_link_tx tx[QUEUED_MAX];
    unsigned tx_free[QUEUED_MAX], tx_free_count;
    uint64_t frames, bodies;
    bool is_down;
};

static uint8_t *next_place(struct side *side, uint64_t len)
{
    if (side->arena_at + len > ARENA) {
        side->arena_at = 0;
    }
    uint8_t *place = side->arena + side->arena_at;
    side->arena_at += len;
    return place;
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct side *side = arg;
    (void)cookie;
    (void)mem;
    side->frames++;
    if (amb_frame_has_body(frame->type)) {
        *dst = next_place(side, frame->data_len + frame->meta_len);
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct side *side = arg;
    (void)cookie;
    side->bodies += status == AMB_OK;
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
    struct side *side = arg;
    (void)status;
    side->tx_free[side->tx_free_count++] = (unsigned)(tx - side->tx);
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct side *side = arg;
    (void)why;
    (void)text;
    side->is_down = true;
}

static void on_closed(void *arg)
{
    (void)arg;
}

static const struct amb_link_events events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void send_frame(struct side *side, uint8_t type, uint64_t body_len)
{
    struct amb_frame frame = {.type = type, .seq = 1, .count = 1};
    if (amb_frame_has_body(type)) {
        frame.meta_len = 16;
        frame.data_len = body_len - 16;
    }
    struct amb_link_tx *tx = &side->tx[side->tx_free[--side->tx_free_count]];
    tx->frame = &frame;
    tx->data = frame.data_len != 0 ? next_place(side, body_len) : NULL;
    tx->meta = side->arena;
    if (amb_link_send(side->link, tx) != AMB_EAGAIN) {
        die("amb_link_send");
    }
}

static void turn(struct side *side)
{
    amb_link_flush(side->link);
    if (amb_link_poll(side->link, 64) == 0) {
        (void)sched_yield();
    }
    if (side->is_down) {
        die("the link went down");
    }
}

static void wait_frames(struct side *side, uint64_t frames)
{
    while (side->frames < frames) {
        turn(side);
    }
}

static int64_t cpu_ns(void)
{
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * AMB_NS_PER_SEC +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * AMB_NS_PER_US;
}

static void one_way_sender(struct side *side, uint64_t body, uint64_t count)
{
    uint64_t seen = side->frames;
    for (uint64_t n = 0; n < count; n++) {
        while (side->tx_free_count == 0) {
            turn(side);
        }
        send_frame(side, AMB_FRAME_BATCH, body);
    }
    wait_frames(side, seen + 1);
}

static void one_way_receiver(struct side *side, uint64_t body, uint64_t count)
{
    uint64_t bodies = side->bodies;
    while (side->bodies == bodies) {
        turn(side);
    }
    int64_t begin = amb_clock_monotonic_ns(), cpu = cpu_ns();
    uint64_t first = side->bodies;
    while (side->bodies < bodies + count) {
        turn(side);
    }
    double seconds = (double)(amb_clock_monotonic_ns() - begin) / 1e9;
    double moved = (double)(side->bodies - first) * (double)body;
    printf("%9llu B bodies: %6.2f GB/s, receiver busy %3.0f %%\n", (unsigned long long)body,
           moved / seconds / 1e9, (double)(cpu_ns() - cpu) / 1e7 / seconds);
    (void)fflush(stdout);
    send_frame(side, AMB_FRAME_SETTLED, 0);
    while (side->link->queued != 0) {
        turn(side);
    }
}

static void ping_pong(struct side *side, uint64_t count, bool is_first)
{
    for (uint64_t n = 0; n < count; n++) {
        uint64_t bodies = side->bodies;
        if (is_first) {
            send_frame(side, AMB_FRAME_BATCH, 64);
        }
        while (side->bodies == bodies) {
            turn(side);
        }
        if (!is_first) {
            send_frame(side, AMB_FRAME_BATCH, 64);
        }
    }
    while (side->link->queued != 0) {
        turn(side);
    }
}

static void init_side(struct side *side, int fd)
{
    side->arena = malloc(ARENA);
    if (side->arena == NULL) {
        die("malloc");
    }
    memset(side->arena, 1, ARENA);
    for (unsigned n = 0; n < QUEUED_MAX; n++) {
        side->tx_free[side->tx_free_count++] = n;
    }
    if (amb_stream_create(fd, &events, side, &side->link) != AMB_OK) {
        die("amb_stream_create");
    }
}

static void connect_pair(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = (struct sockaddr *)(void *)&address;
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || fds[0] < 0 || bind(listener, any, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, any, &len) != 0 || connect(fds[0], any, len) != 0 ||
        (fds[1] = accept(listener, NULL, NULL)) < 0) {
        die("loopback connection");
    }
    (void)close(listener);
}

static void run(struct side *side, bool is_sender, uint64_t body, uint64_t count)
{
    if (is_sender) {
        one_way_sender(side, body, count);
    } else {
        one_way_receiver(side, body, count);
    }
}

int main(int argc, char **argv)
{
    static const uint64_t plan[][2] = {{64, 1000000},   {4096, 400000},  {16384, 200000},
                                       {60000, 100000}, {65536, 100000}, {262144, 20000},
                                       {1 << 20, 6000}, {64 << 20, 100}};
    static struct side side;
    int fds[2];
    connect_pair(fds);
    pid_t child = fork();
    if (child < 0) {
        die("fork");
    }
    bool is_sender = child == 0;
    (void)close(fds[is_sender ? 1 : 0]);
    init_side(&side, fds[is_sender ? 0 : 1]);
    if (argc == 3) {
        run(&side, is_sender, strtoull(argv[1], NULL, 0), strtoull(argv[2], NULL, 0));
    } else {
        for (size_t n = 0; n < sizeof(plan) / sizeof(plan[0]); n++) {
            run(&side, is_sender, plan[n][0], plan[n][1]);
        }
        const uint64_t rounds = 100000;
        int64_t begin = amb_clock_monotonic_ns();
        ping_pong(&side, rounds, is_sender);
        if (!is_sender) {
            printf("64 B to and fro: %.2f us one way\n",
                   (double)(amb_clock_monotonic_ns() - begin) / 2e3 / (double)rounds);
        }
    }
    if (!is_sender) {
        (void)waitpid(child, NULL, 0);
    }
    return amb_link_close(side.link) ? 0 : 1;
}
