/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of the ucx link over TCP on the loopback interface between two processes. Bodies of
 * several sizes go one way, and 64 B frames to and fro. Both sides poll and sched_yield, as loops
 * with `spin` do. UCX takes whatever it is given, so the receiver grants a window, as brokers do.
 *
 *     link-ucx-bench [-s SIZE [-n COUNT]] [-m META] [-w WINDOW] [-2] [-u] [-S NAME=VALUE]...
 *
 *     -2: meta is a piece of its own (a client's batch; without: a broker's delivery)
 *     -u: memory is not registered     -S: a setting of UCX
 */
#include "wire/base/clock.h"
#include "wire/codec/frame.h"
#include "wire/link/ucx/ucx_link.h"
#include "wire/link/ucx/ucx_worker.h"
#include "wire/link/ucxlib/ucx_context.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARENA (UINT64_C(256) << 20)
#define QUEUED_MAX 1024u
#define SETTINGS_MAX 16u

static struct {
    uint64_t window;
    uint32_t meta;
    bool is_two_pieces, is_unregistered;
    struct amb_ucx_setting settings[SETTINGS_MAX];
    size_t setting_count;
} flags = {.window = UINT64_C(16) << 20, .meta = 16};

struct side {
    struct amb_ucx_context *context;
    struct amb_ucx_worker *worker;
    struct amb_link *link;
    struct amb_link_mem *mem;
    uint8_t *arena; /* bodies are sent from here, and land here */
    uint64_t arena_at;
    struct amb_link_tx tx[QUEUED_MAX];
    unsigned tx_free[QUEUED_MAX], tx_free_count;
    uint64_t bodies, sent, released;
    bool is_down, is_closed;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    exit(1);
}

static uint8_t *next_place(struct side *side, uint64_t len)
{
    len = (len + 4095) & ~UINT64_C(4095);
    uint64_t cycle = flags.window * 2 > ARENA ? ARENA : flags.window * 2;
    if (side->arena_at + len > (cycle < len ? ARENA : cycle)) {
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
    *dst = next_place(side, frame->data_len + frame->meta_len);
    *mem = side->mem;
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct side *side = arg;
    (void)cookie;
    side->bodies += status == AMB_OK ? 1 : 0;
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct side *side = arg;
    (void)kind;
    (void)handle;
    side->released = value;
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
    struct side *side = arg;
    side->is_closed = true;
}

static const struct amb_link_events events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

static void send_body(struct side *side, uint64_t body)
{
    uint32_t meta = body <= flags.meta ? 16 : flags.meta;
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH, .seq = 1, .count = 1, .data_len = body - meta, .meta_len = meta};
    struct amb_link_tx *tx = &side->tx[side->tx_free[--side->tx_free_count]];
    uint8_t *place = next_place(side, body + 64);
    tx->frame = &frame;
    tx->data = place;
    tx->meta = place + body - meta + (flags.is_two_pieces ? 64 : 0);
    tx->mem = side->mem;
    enum amb_status status = amb_link_send(side->link, tx);
    if (status == AMB_OK) {
        on_sent(side, tx, status);
    } else if (status != AMB_EAGAIN) {
        die("amb_link_send");
    }
    side->sent++;
}

static void turn(struct side *side)
{
    amb_link_flush(side->link);
    if (amb_ucx_worker_progress(side->worker) == 0) {
        (void)sched_yield();
    }
    if (side->is_down) {
        die("the link went down");
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
    uint64_t end = side->sent + count;
    int64_t cpu = cpu_ns();
    while (side->released < end) {
        uint64_t out = (side->sent - side->released) * body;
        if (side->sent < end && side->tx_free_count != 0 &&
            (out == 0 || out + body <= flags.window)) {
            send_body(side, body);
        } else {
            turn(side);
        }
    }
    printf("%55s sender %.2f CPU s/GB\n", "",
           (double)(cpu_ns() - cpu) / (double)count / (double)body);
    (void)fflush(stdout);
}

static void one_way_receiver(struct side *side, uint64_t body, uint64_t count)
{
    uint64_t first = side->bodies, end = first + count, told = first;
    int64_t begin = 0, cpu = 0;
    while (side->bodies < end) {
        turn(side);
        if (begin == 0 && side->bodies > first) {
            begin = amb_clock_monotonic_ns();
            cpu = cpu_ns();
            first = side->bodies;
        }
        if ((side->bodies - told) * body >= flags.window / 4 || side->bodies == end) {
            told = side->bodies;
            amb_link_flow(side->link, AMB_FLOW_RELEASE, 0, told);
        }
    }
    double seconds = (double)(amb_clock_monotonic_ns() - begin) / 1e9;
    double moved = (double)(side->bodies - first) * (double)body;
    printf("%9llu B bodies: %6.2f GB/s, %8.0f bodies/s, receiver %.2f CPU s/GB\n",
           (unsigned long long)body, moved / seconds / 1e9, moved / seconds / (double)body,
           (double)(cpu_ns() - cpu) / moved);
    (void)fflush(stdout);
    amb_link_flush(side->link);
}

static void ping_pong(struct side *side, uint64_t count, bool is_first)
{
    for (uint64_t n = 0; n < count; n++) {
        uint64_t bodies = side->bodies;
        if (is_first) {
            send_body(side, 64);
        }
        while (side->bodies == bodies) {
            turn(side);
        }
        if (!is_first) {
            send_body(side, 64);
        }
    }
    while (side->link->queued != 0) {
        turn(side);
    }
}

static void exchange(int in, int out, const void *own, size_t own_len, uint8_t *peer, size_t *len)
{
    if (write(out, &own_len, sizeof(own_len)) != (ssize_t)sizeof(own_len) ||
        write(out, own, own_len) != (ssize_t)own_len ||
        read(in, len, sizeof(*len)) != (ssize_t)sizeof(*len) ||
        read(in, peer, *len) != (ssize_t)*len) {
        die("no address from the other side");
    }
}

static void init_side(struct side *side, int in, int out)
{
    struct amb_ucx_options options = {.net_devices = "lo",
                                      .use_environment = true,
                                      .settings = flags.settings,
                                      .setting_count = flags.setting_count};
    char error[256] = "";
    uint8_t peer[4096];
    size_t len = 0;
    amb_ucx_segment_sizes(&options.tx_seg, &options.rx_seg);
    if (getenv("BENCH_TX_SEG") != NULL) {
        options.tx_seg = (uint32_t)strtoul(getenv("BENCH_TX_SEG"), NULL, 0);
        options.rx_seg = (uint32_t)strtoul(getenv("BENCH_RX_SEG"), NULL, 0);
    }
    if (amb_ucx_context_create(&options, error, sizeof(error), &side->context) != AMB_OK) {
        die(error);
    }
    side->arena =
        mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (side->arena == MAP_FAILED ||
        (!flags.is_unregistered &&
         amb_ucx_register(side->context, side->arena, ARENA, &side->mem) != AMB_OK) ||
        amb_ucx_worker_create(side->context, false, &side->worker) != AMB_OK) {
        die("no memory or worker");
    }
    for (unsigned n = 0; n < QUEUED_MAX; n++) {
        side->tx_free[side->tx_free_count++] = n;
    }
    const void *own = amb_ucx_worker_address(side->worker, &len);
    exchange(in, out, own, len, peer, &len);
    if (amb_ucx_link_create(side->worker, peer, len, 1, 2, 3, &events, side, &side->link) !=
        AMB_OK) {
        die("no link");
    }
}

static void run(struct side *side, bool is_sender, uint64_t body, uint64_t count)
{
    if (is_sender) {
        one_way_sender(side, body, count);
    } else {
        one_way_receiver(side, body, count);
    }
}

static void run_all(struct side *side, bool is_sender)
{
    static const uint64_t plan[][2] = {{64, 300000},    {4096, 200000}, {16384, 100000},
                                       {60000, 60000},  {65536, 60000}, {262144, 10000},
                                       {1 << 20, 4000}, {64 << 20, 60}};
    for (size_t n = 0; n < sizeof(plan) / sizeof(plan[0]); n++) {
        run(side, is_sender, plan[n][0], plan[n][1]);
    }
    const uint64_t rounds = 50000;
    int64_t begin = amb_clock_monotonic_ns();
    ping_pong(side, rounds, is_sender);
    if (!is_sender) {
        printf("64 B to and fro: %.2f us one way\n",
               (double)(amb_clock_monotonic_ns() - begin) / 2e3 / (double)rounds);
    }
}

static void finish(struct side *side)
{
    if (!amb_link_close(side->link)) {
        while (!side->is_closed) {
            (void)amb_ucx_worker_progress(side->worker);
        }
    }
    amb_ucx_unregister(&side->mem);
    amb_ucx_worker_destroy(&side->worker);
    amb_ucx_context_destroy(&side->context);
}

static void add_setting(char *text)
{
    char *value = strchr(text, '=');
    if (value == NULL || flags.setting_count == SETTINGS_MAX) {
        die("-S NAME=VALUE");
    }
    *value = '\0';
    flags.settings[flags.setting_count++] = (struct amb_ucx_setting){text, value + 1};
}

int main(int argc, char **argv)
{
    static struct side side;
    uint64_t body = 0, count = 1000;
    int option;
    while ((option = getopt(argc, argv, "s:n:m:w:2uS:")) > 0) {
        switch (option) {
        case 's':
            body = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            count = strtoull(optarg, NULL, 0);
            break;
        case 'm':
            flags.meta = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'w':
            flags.window = strtoull(optarg, NULL, 0);
            break;
        case '2':
            flags.is_two_pieces = true;
            break;
        case 'u':
            flags.is_unregistered = true;
            break;
        case 'S':
            add_setting(optarg);
            break;
        default:
            return 64;
        }
    }
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0) {
        die("pipe");
    }
    pid_t child = fork();
    if (child < 0) {
        die("fork");
    }
    bool is_sender = child == 0;
    init_side(&side, is_sender ? there[0] : back[0], is_sender ? back[1] : there[1]);
    if (body >= 64) {
        run(&side, is_sender, body, count);
    } else {
        run_all(&side, is_sender);
    }
    if (!is_sender) {
        (void)waitpid(child, NULL, 0);
    }
    side.is_down = false;
    finish(&side);
    return 0;
}
