/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a message, without the machine. A publisher, a broker's worker and a subscriber are
 * in one thread, each taking its turn, on the ring. Their clock stands still between messages. The
 * same instructions run every time, so a counter of instructions (instructions.py runs this under
 * callgrind) sees regressions whatever the machine does meanwhile.
 *
 *     instructions-bench SIZE MESSAGES [lease|stream]
 *     instructions-bench waits LINK ROUNDS PART
 *
 * $AMB_BENCH_CONFIG: the broker's configuration, for users and roles; $AMB_CREDENTIALS is the
 * clients'.
 *
 * Messages come in batches, as many as a window takes. With "lease" they are handed over one by
 * one; nobody writes or reads a payload. The second form is in instructions_waits.c.
 *
 * The counted code lies below bench_publish, bench_broker and bench_receive, inside bench_measure.
 *
 * Threads: main, and one that runs control while main connects and turns the worker until then.
 * Memory: given back by the end of the process.
 */
#include "tests/bench/instructions_bench.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/control_loop.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/config/transports.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUND_BYTES                                                                                \
    (480u << 10)      /* published before the others have their turn: several batches              \
                       */
#define MESSAGE_NS 40 /* the time of a message by the clock that the library sees */
#define WARM_ROUNDS 20u
#define MANY 256u
#define SIZE_MAX_BYTES 4096u /* of a message in a batch */
#define LEASE_MAX_BYTES (16u << 20)

/* ---- the clock ---- */

static _Atomic int64_t frozen_ns; /* 0: it runs */

/* Both stand in for libc's in this program and in libamb. */
BENCH_STAND_IN int clock_gettime(clockid_t id, struct timespec *out)
{
    int64_t now_ns = atomic_load_explicit(&frozen_ns, memory_order_relaxed);
    if (id != CLOCK_MONOTONIC || now_ns == 0) {
        return (int)syscall(SYS_clock_gettime, id, out);
    }
    *out = (struct timespec){.tv_sec = (time_t)(now_ns / AMB_NS_PER_SEC),
                             .tv_nsec = (long)(now_ns % AMB_NS_PER_SEC)};
    return 0;
}

/* valgrind does not know pidfd_open, and without a pidfd nobody maps: instructions.py leaves one.
 */
BENCH_STAND_IN long syscall(long number, ...)
{
    static long (*libc)(long number, ...);
    /* Asked for this call alone: the clock comes by here, and the search takes what the environment
     * takes. */
    const char *pidfd = number == SYS_pidfd_open ? getenv("AMB_BENCH_PIDFD") : NULL;
    if (pidfd != NULL) {
        return dup((int)strtol(pidfd, NULL, 10));
    }
    if (libc == NULL) {
        void *found = dlsym(RTLD_NEXT, "syscall");
        memcpy(&libc, &found, sizeof(libc));
    }
    long a[6];
    va_list args;
    va_start(args, number);
    for (unsigned i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    return libc(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void bench_freeze(void)
{
    atomic_store(&frozen_ns, amb_clock_monotonic_ns());
}

void bench_pass(int64_t ns)
{
    atomic_fetch_add_explicit(&frozen_ns, ns, memory_order_relaxed);
}

/* ---- the broker ---- */

struct amb_worker bench_worker;
char bench_url[96];

static struct amb_config *config;
static struct amb_membudget budget;
static struct amb_shard *const shard = &bench_worker.shard;
static struct amb_shard *peers[] = {&bench_worker.shard};
static struct amb_control control;
static const struct amb_transports transports = {.why_not = "no ucx here"};
static char folder[] = "/tmp/amb-instructions.XXXXXX";
static _Atomic bool is_by_hand; /* main turns the worker */
static _Atomic bool is_parked;  /* the helper has seen it */

void bench_fail(const char *what, enum amb_status status)
{
    (void)fprintf(stderr, "instructions-bench: %s: %s\n", what, amb_strerror(status));
    exit(1);
}

void bench_must(const char *what, enum amb_status status)
{
    if (status != AMB_OK) {
        bench_fail(what, status);
    }
}

struct offer {
    struct amb_mail mail;
    uint64_t client_id, segment, size;
    int fd;
};

static void offer_arrived(struct amb_mail *mail, void *owner)
{
    struct offer *offer = AMB_CONTAINER_OF(mail, struct offer, mail);
    struct amb_control *to = owner;
    AMB_LIST_FOR_EACH (node, &to->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->id == offer->client_id) {
            Amb__Control__SegAdd add = AMB__CONTROL__SEG_ADD__INIT;
            Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
            add.segment = offer->segment;
            add.size = offer->size;
            message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_ADD;
            message.seg_add = &add;
            amb_client_send(client, &message, &offer->fd, 1);
        }
    }
    free(offer);
}

static void offer_segment(struct amb_shard *from, uint64_t client_id, uint64_t segment,
                          uint64_t size, int fd)
{
    struct offer *offer = malloc(sizeof(*offer));
    if (offer == NULL) {
        bench_fail("offer", AMB_ENOMEM);
    }
    *offer = (struct offer){.client_id = client_id, .segment = segment, .size = size, .fd = fd};
    amb_mail_post(from->control, &offer->mail, offer_arrived);
}

static void session_ended(struct amb_shard *from, uint64_t client_id, enum amb_status why,
                          const char *text)
{
    (void)from, (void)client_id;
    if (why != AMB_ELOST && why != AMB_ECLOSED && why != AMB_OK) {
        bench_fail(text != NULL ? text : "a session ended", why);
    }
}

static void *control_main(void *arg)
{
    amb_control_run(arg);
    return NULL;
}

static unsigned turn(void)
{
    return amb_shard_turn(shard, amb_clock_monotonic_ns(), amb_clock_realtime_ns());
}

static void *helper_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_by_hand)) {
        if (turn() == 0) {
            (void)usleep(100);
        }
    }
    atomic_store(&is_parked, true);
    return NULL;
}

static void read_config(void)
{
    const char *listen[] = {bench_url};
    /* A worker with a thread of its own sleeps at once. */
    const char *options[] = {"server.workers=1", "server.spin=0", "memory.host.size=256M",
                             "log.level=error"};
    struct amb_config_source source = {
        .path = getenv("AMB_BENCH_CONFIG"),
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .listen = listen,
        .listen_count = 1,
    };
    char error[512] = "";
    if (mkdtemp(folder) == NULL) {
        bench_fail(folder, AMB_EINVAL);
    }
    (void)snprintf(bench_url, sizeof(bench_url), "unix://%s/s", folder);
    if (amb_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        bench_fail(error, AMB_EINVAL);
    }
    budget.max = config->memory.host.size;
}

static void start_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, arg) != 0 || pthread_detach(thread) != 0) {
        bench_fail("threads", AMB_ELIMIT);
    }
}

void bench_start_broker(bool has_worker)
{
    char error[512] = "";
    read_config();
    bench_must("worker", amb_worker_init(&bench_worker, 0, config, &budget));
    shard->peers = peers;
    shard->peer_count = 1;
    shard->control = &control.inbox;
    static const struct amb_shard_upcalls upcalls = {
        .offer_segment = offer_segment,
        .session_ended = session_ended,
        .topic_heard = amb_control_topic_heard,
    };
    shard->upcalls = &upcalls;
    if (!has_worker) {
        bench_must("memory", amb_bufpool_prepare(&shard->memory.bufpool));
    }
    bench_must("control", amb_control_init(&control, config, peers, 1, &budget, NULL, &transports,
                                           error, sizeof(error)));
    start_thread(control_main, &control);
    if (has_worker) {
        bench_must("worker", amb_worker_start(&bench_worker));
    } else {
        start_thread(helper_main, NULL);
    }
}

void bench_end(void)
{
    (void)fflush(stdout);
    (void)unlink(bench_url + strlen("unix://"));
    (void)rmdir(folder);
    _exit(0); /* Nobody turns the worker any more, so nothing could be closed in order. */
}

/* ---- the clients ---- */

struct ends {
    struct amb_conn *pub_conn, *sub_conn;
    struct amb_pub *pub;
    struct amb_sub *sub;
    size_t size;
    bool is_lease, is_stream, is_measured;
    uint64_t round; /* published, when the last one ended */
    uint64_t published, received, bytes;
    char payload[SIZE_MAX_BYTES];
};

static void connect_ends(struct ends *ends)
{
    struct amb_options *options =
        AMB_OPTIONS(.progress = AMB_PROGRESS_POLL, .reconnect_attempts = AMB_NONE);
    char url[sizeof(bench_url) + 16];
    (void)snprintf(url, sizeof(url), "%s%s", bench_url, ends->is_stream ? "?link=stream" : "");
    bench_must("connect", amb_connect(url, options, &ends->pub_conn));
    bench_must("connect", amb_connect(url, options, &ends->sub_conn));
    bench_must("subscribe",
               amb_subscribe(ends->sub_conn, "count", AMB_SUB(.slow = AMB_SLOW_BLOCK), &ends->sub));
    bench_must("open", amb_pub_open(ends->pub_conn, "count", NULL, &ends->pub));
    bench_must("wait", amb_pub_wait_subscribers(ends->pub, 1, 10 * AMB_SEC));
    /* A topic's first message waits until control has told all readers of it. */
    bench_must("send", amb_pub_send(ends->pub, ends->payload, sizeof(ends->payload), AMB_NOWAIT));
    bench_must("flush", amb_pub_flush(ends->pub, 0, 10 * AMB_SEC));
    struct amb_msg *msg = NULL;
    bench_must("receive", amb_next(ends->sub, 10 * AMB_SEC, &msg));
    amb_msg_release(msg);
}

/* The three parts by name, whatever the compiler would like to merge. */
#ifdef __clang__
#define PART __attribute__((noinline, used)) void
#else
#define PART __attribute__((noipa, used)) void
#endif
PART bench_publish(struct ends *ends, unsigned count);
PART bench_broker(void);
PART bench_receive(struct ends *ends);
PART bench_measure(struct ends *ends, unsigned rounds);

static enum amb_status publish_one(struct ends *ends)
{
    if (!ends->is_lease) {
        return amb_pub_send(ends->pub, ends->payload, ends->size, AMB_NOWAIT);
    }
    struct amb_lease *lease = NULL;
    enum amb_status status = amb_lease(ends->pub, ends->size, AMB_NOWAIT, &lease);
    return status == AMB_OK ? amb_lease_commit(lease, NULL, NULL) : status;
}

void bench_publish(struct ends *ends, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        enum amb_status status = publish_one(ends);
        if (status != AMB_OK) {
            break; /* The window is full: the others' turn. */
        }
        ends->published++;
        bench_pass(MESSAGE_NS);
    }
    enum amb_status status = amb_pub_flush(ends->pub, 0, AMB_NOWAIT);
    if (status != AMB_OK && status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
        bench_fail("flush", status);
    }
    if (ends->is_measured && ends->is_lease && ends->published != ends->round + 1) {
        bench_fail("no lease, so not one by one", status);
    }
    ends->round = ends->published;
}

void bench_broker(void)
{
    while (turn() > 0) {
    }
}

void bench_receive(struct ends *ends)
{
    struct amb_msg *msgs[MANY];
    size_t count = 0;
    while (amb_next_many(ends->sub, AMB_NOWAIT, msgs, MANY, &count) == AMB_OK) {
        for (size_t i = 0; i < count; i++) {
            ends->bytes += amb_msg_size(msgs[i]);
            amb_msg_release(msgs[i]);
        }
        ends->received += count;
    }
}

static unsigned round_messages(const struct ends *ends)
{
    return ends->is_lease ? 1 : (unsigned)(ROUND_BYTES / ends->size);
}

static void run_round(struct ends *ends)
{
    bench_publish(ends, round_messages(ends));
    bench_broker();
    bench_receive(ends);
    bench_broker(); /* Takes back what was released. */
}

void bench_measure(struct ends *ends, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        run_round(ends);
    }
}

/* Bytes that are still in a socket come, too. */
static void settle(struct ends *ends)
{
    for (unsigned i = 0; i < 1000 && ends->received != ends->published; i++) {
        bench_pass(AMB_NS_PER_MS);
        enum amb_status status = amb_pub_flush(ends->pub, 0, AMB_NOWAIT);
        if (status != AMB_OK && status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
            bench_fail("flush", status);
        }
        (void)amb_poll(ends->pub_conn, AMB_NOWAIT);
        bench_broker();
        bench_receive(ends);
        bench_broker();
    }
}

/* Until a segment is mapped and the like: things of the first moments. */
static void warm(struct ends *ends)
{
    for (unsigned i = 0; i < WARM_ROUNDS; i++) {
        run_round(ends);
        (void)amb_poll(ends->pub_conn, AMB_NOWAIT);
        (void)amb_poll(ends->sub_conn, AMB_NOWAIT);
        (void)usleep(2000); /* Control has its turn: it offers segments. */
    }
    bench_freeze();
    run_round(ends);
    run_round(ends);
    settle(ends);
}

int main(int argc, char **argv)
{
    static struct ends ends;
    if (argc > 1 && strcmp(argv[1], "waits") == 0) {
        return bench_waits(argc - 2, argv + 2);
    }
    ends.is_lease = argc == 4 && strcmp(argv[3], "lease") == 0;
    ends.is_stream = argc == 4 && strcmp(argv[3], "stream") == 0;
    if (argc != 3 + ends.is_lease + ends.is_stream ||
        (ends.size = strtoul(argv[1], NULL, 10)) < 1 ||
        ends.size > (ends.is_lease ? LEASE_MAX_BYTES : SIZE_MAX_BYTES)) {
        (void)fprintf(stderr, "usage: instructions-bench SIZE MESSAGES [lease|stream]\n"
                              "       instructions-bench waits LINK ROUNDS PART\n");
        return 64;
    }
    bench_start_broker(false);
    connect_ends(&ends);
    atomic_store(&is_by_hand, true);
    while (!atomic_load(&is_parked)) {
        (void)usleep(100);
    }
    warm(&ends);
    uint64_t published = ends.published;
    uint64_t received = ends.received;
    uint64_t batches = amb_stat_get(&shard->stats->batches_in);
    uint64_t maps = amb_stat_get(&shard->stats->maps);
    unsigned rounds = (unsigned)(strtoul(argv[2], NULL, 10) / round_messages(&ends)) + 1;
    ends.is_measured = true;
    bench_measure(&ends, rounds);
    settle(&ends);
    if (ends.received - received != ends.published - published || ends.received == received) {
        (void)fprintf(stderr, "instructions-bench: %llu of %llu arrived\n",
                      (unsigned long long)(ends.received - received),
                      (unsigned long long)(ends.published - published));
        return 1;
    }
    (void)printf("{\"size\":%zu,\"messages\":%llu,\"batches\":%llu,\"mapped\":%llu}\n", ends.size,
                 (unsigned long long)(ends.received - received),
                 (unsigned long long)(amb_stat_get(&shard->stats->batches_in) - batches),
                 (unsigned long long)(amb_stat_get(&shard->stats->maps) - maps));
    bench_end();
}
