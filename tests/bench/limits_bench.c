/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's own limits for the cells of target.py that bytes decide: the same work with no
 * broker to speak of. A publisher writes every word of each message and a subscriber checks it, as
 * the peers' harness does with --touch. Between them is the least there can be.
 *
 *   limits-bench KIND --size N
 *     lease    written in place in shared memory, checked in place
 *     copy     written in private memory, copied to shared memory, checked there
 *     tcp      over TCP on loopback through a third process that knows nothing of messages: it
 *              reads what is there and writes it on
 *     raw      the same, untouched
 *     fanout   to --subs subscribers, untouched; the third process waits for whole messages
 *
 * Options:
 *     --seconds S      after 0.15 s that do not count
 *     --window N       messages under way, as the harness: 16 MiB, 3 to 32768
 *     --subs N         subscribers
 *     --chunk BYTES    of the third process; default: 1 MiB
 *
 * One line of JSON with the harness's keys. A hand-over costs two cache lines and no system call;
 * writer and checker have a processor each (lease, copy).
 *
 * Threads: none; processes that share `struct shared`. Memory: all mapped before the fork, the
 * slots not yet touched, as a broker's are not when its clients come.
 */
#include "wire/base/copy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUBS_MAX 64u
#define WARM_NS UINT64_C(150000000)
#define WINDOW_BYTES (UINT64_C(16) << 20)
#define WINDOW_MIN 3u
#define WINDOW_MAX 32768u
#define SLOTS_MAX 256u

struct counter {
    _Alignas(64) _Atomic uint64_t value;
};

struct shared {
    struct counter sent;
    struct counter got[SUBS_MAX];
    struct counter wrong;
    struct counter connected;
    struct counter relay_us; /* CPU that the third process has used */
    struct counter is_over;
};

struct limits {
    struct shared *shared;
    const char *kind;
    uint8_t *slots;
    uint64_t size, window, slot_count, chunk;
    unsigned subs;
    double seconds;
    bool has_touch;
};

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static uint64_t get(const struct counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_acquire);
}

static void set(struct counter *counter, uint64_t value)
{
    atomic_store_explicit(&counter->value, value, memory_order_release);
}

static bool is_over(const struct limits *limits)
{
    return get(&limits->shared->is_over) != 0;
}

static void *map(uint64_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        die("mmap");
    }
    return bytes;
}

static void run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set); /* One processor: they share it. */
}

/* ---- messages: every word is the message's number plus its own index ---- */

static void fill(uint8_t *bytes, uint64_t size, uint64_t number)
{
    for (uint64_t i = 0; i < size / 8; i++) {
        uint64_t word = (number << 32) + i;
        memcpy(bytes + 8 * i, &word, 8);
    }
}

static bool is_filled(const uint8_t *bytes, uint64_t size, uint64_t number)
{
    uint64_t bad = 0;
    for (uint64_t i = 0; i < size / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, 8);
        bad |= word ^ ((number << 32) + i);
    }
    return bad == 0;
}

static void check(const struct limits *limits, const uint8_t *bytes, uint64_t number)
{
    if (limits->has_touch && !is_filled(bytes, limits->size, number)) {
        atomic_fetch_add(&limits->shared->wrong.value, 1);
    }
}

static uint64_t slowest(const struct limits *limits)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < limits->subs; i++) {
        uint64_t got = get(&limits->shared->got[i]);
        least = got < least ? got : least;
    }
    return least;
}

/* ---- through shared memory ---- */

static uint8_t *slot_of(const struct limits *limits, uint64_t number)
{
    return limits->slots + number % limits->slot_count * limits->size;
}

/* One that has caught up begins again when a quarter of the slots is written. Right behind its
 * writer it would find lines in the writer's own cache, which can be slow. */
static void shm_subscriber(const struct limits *limits)
{
    const struct shared *shared = limits->shared;
    uint64_t number = 0, until = 0, lag = limits->slot_count >= 8 ? limits->slot_count / 4 : 1;
    while (!is_over(limits)) {
        uint64_t sent = get(&shared->sent);
        if (number == until) {
            until = sent >= number + lag ? sent : until;
        }
        if (number == until) {
            (void)sched_yield();
            continue;
        }
        check(limits, slot_of(limits, number), number);
        set(&limits->shared->got[0], ++number);
    }
}

static void shm_publisher(const struct limits *limits)
{
    bool has_copy = strcmp(limits->kind, "copy") == 0;
    uint8_t *own = has_copy ? malloc(limits->size) : NULL;
    for (uint64_t number = 0; !is_over(limits);) {
        if (number - get(&limits->shared->got[0]) >= limits->slot_count) {
            (void)sched_yield();
            continue;
        }
        uint8_t *slot = slot_of(limits, number);
        fill(has_copy ? own : slot, limits->size, number);
        if (has_copy) {
            amb_copy(slot, own, limits->size); /* The choice of instructions is ours too. */
        }
        set(&limits->shared->sent, ++number);
    }
    free(own);
}

/* ---- through TCP ---- */

/* As libamb's: with the kernel's own buffers, of megabytes, much of it is read from memory. */
static void set_options(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){256 << 10}, sizeof(int));
}

static int connect_to(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        die("connect");
    }
    set_options(fd);
    return fd;
}

static bool send_all(int fd, const uint8_t *bytes, uint64_t size)
{
    while (size != 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        size -= (uint64_t)sent;
    }
    return true;
}

static bool receive_all(int fd, uint8_t *bytes, uint64_t size)
{
    while (size != 0) {
        ssize_t got = recv(fd, bytes, size, 0);
        if (got <= 0) {
            return false;
        }
        bytes += got;
        size -= (uint64_t)got;
    }
    return true;
}

static void tcp_publisher(const struct limits *limits, const struct sockaddr_in *address)
{
    int fd = connect_to(address);
    uint8_t *bytes = calloc(1, limits->size);
    for (uint64_t number = 0; bytes != NULL && !is_over(limits);) {
        if (number - slowest(limits) >= limits->window) {
            (void)sched_yield();
            continue;
        }
        if (limits->has_touch) {
            fill(bytes, limits->size, number);
        }
        if (!send_all(fd, bytes, limits->size)) {
            break;
        }
        number++;
    }
    free(bytes);
    (void)close(fd);
}

static void tcp_subscriber(const struct limits *limits, const struct sockaddr_in *address,
                           unsigned index)
{
    int fd = connect_to(address);
    uint8_t *bytes = calloc(1, limits->size);
    uint64_t number = 0;
    while (bytes != NULL && receive_all(fd, bytes, limits->size)) {
        check(limits, bytes, number);
        set(&limits->shared->got[index], ++number);
    }
    free(bytes);
    (void)close(fd);
}

/* The bytes that have come and not left to everybody. */
struct relay {
    int in, out[SUBS_MAX];
    unsigned count;
    uint8_t *bytes;
    uint64_t len, left[SUBS_MAX];
};

/* Reads as much as there is, at most `max`; a message must be whole if several want it. */
static bool relay_read(struct relay *relay, uint64_t max)
{
    if (relay->count > 1) {
        relay->len = max;
        return receive_all(relay->in, relay->bytes, max);
    }
    ssize_t got = recv(relay->in, relay->bytes, max, 0);
    relay->len = got > 0 ? (uint64_t)got : 0;
    return got > 0;
}

static bool relay_write(struct relay *relay)
{
    unsigned open = relay->count;
    for (unsigned i = 0; i < relay->count; i++) {
        relay->left[i] = relay->len;
    }
    while (open != 0) {
        struct pollfd fds[SUBS_MAX];
        for (unsigned i = 0; i < relay->count; i++) {
            fds[i] =
                (struct pollfd){.fd = relay->left[i] != 0 ? relay->out[i] : -1, .events = POLLOUT};
        }
        if (relay->count > 1 && poll(fds, relay->count, 1000) < 0) {
            return false;
        }
        for (unsigned i = 0; i < relay->count; i++) {
            if (relay->left[i] == 0 || (relay->count > 1 && fds[i].revents == 0)) {
                continue;
            }
            ssize_t sent =
                send(relay->out[i], relay->bytes + relay->len - relay->left[i], relay->left[i],
                     MSG_NOSIGNAL | (relay->count > 1 ? MSG_DONTWAIT : 0));
            if (sent < 0 && errno != EAGAIN) {
                return false;
            }
            relay->left[i] -= sent > 0 ? (uint64_t)sent : 0;
            open -= relay->left[i] == 0;
        }
    }
    return true;
}

static void tcp_relay(const struct limits *limits, int listener)
{
    /* Subscribers connect first, the publisher when all of them are there. */
    struct relay relay = {.count = limits->subs, .bytes = malloc(limits->chunk)};
    for (unsigned i = 0; i <= limits->subs; i++) {
        int fd = accept(listener, NULL, NULL);
        set_options(fd);
        *(i < limits->subs ? &relay.out[i] : &relay.in) = fd;
        set(&limits->shared->connected, i + 1);
    }
    while (relay.bytes != NULL && relay_read(&relay, limits->chunk) && relay_write(&relay)) {
        struct rusage usage;
        (void)getrusage(RUSAGE_SELF, &usage);
        set(&limits->shared->relay_us,
            (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
    }
    free(relay.bytes);
}

/* ---- a run ---- */

static void report(const struct limits *limits, uint64_t took_ns, uint64_t messages,
                   uint64_t relay_us)
{
    double seconds = (double)took_ns / 1e9;
    double rate = (double)messages / seconds;
    double gb = (double)messages * (double)limits->size / 1e9;
    printf("{\"peer\":\"limit\",\"workload\":\"%s\",\"size\":%llu,\"subs\":%u,\"window\":%llu,"
           "\"status\":\"%s\",\"msgs_per_s\":%.1f,\"mb_per_s\":%.2f,\"corrupt\":%llu,\"others\":0,"
           "\"broker_cpu_s_per_gb\":%.4f}\n",
           limits->kind, (unsigned long long)limits->size, limits->subs,
           (unsigned long long)limits->window, messages != 0 ? "ok" : "nothing came", rate,
           rate * (double)limits->size / 1e6, (unsigned long long)get(&limits->shared->wrong),
           gb != 0 ? (double)relay_us / 1e6 / gb : 0);
}

static uint64_t received(const struct limits *limits)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < limits->subs; i++) {
        sum += get(&limits->shared->got[i]);
    }
    return sum;
}

static void measure(const struct limits *limits)
{
    struct timespec warm = {.tv_nsec = (long)WARM_NS};
    struct timespec run = {.tv_sec = (time_t)limits->seconds,
                           .tv_nsec =
                               (long)((limits->seconds - (double)(time_t)limits->seconds) * 1e9)};
    (void)nanosleep(&warm, NULL);
    uint64_t start_ns = now_ns(), first = received(limits), cpu = get(&limits->shared->relay_us);
    (void)nanosleep(&run, NULL);
    uint64_t took_ns = now_ns() - start_ns;
    report(limits, took_ns, received(limits) - first, get(&limits->shared->relay_us) - cpu);
    (void)fflush(stdout);
}

static void finish(const struct limits *limits, const pid_t *pids, unsigned count)
{
    set(&limits->shared->is_over, 1);
    for (unsigned i = 0; i < count; i++) {
        (void)waitpid(pids[i], NULL, 0);
    }
}

static void run_shm(struct limits *limits)
{
    limits->slot_count = limits->window < SLOTS_MAX ? limits->window : SLOTS_MAX;
    limits->slots = map(limits->slot_count * limits->size);
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            run_on(i);
            (i == 0 ? shm_publisher : shm_subscriber)(limits);
            _exit(0);
        }
    }
    measure(limits);
    finish(limits, pids, 2);
}

static void run_tcp(struct limits *limits)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) != 0 ||
        listen(listener, SUBS_MAX + 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0) {
        die("listen");
    }
    pid_t pids[SUBS_MAX + 2];
    unsigned count = 0;
    for (unsigned i = 0; i < limits->subs + 2; i++, count++) {
        if (i == limits->subs + 1) { /* The publisher: all the others are connected. */
            while (get(&limits->shared->connected) < limits->subs) {
                (void)sched_yield();
            }
        }
        pids[i] = fork();
        if (pids[i] != 0) {
            continue;
        }
        if (i == 0) {
            tcp_relay(limits, listener);
        } else if (i <= limits->subs) {
            (void)close(listener);
            tcp_subscriber(limits, &address, i - 1);
        } else {
            (void)close(listener);
            tcp_publisher(limits, &address);
        }
        _exit(0);
    }
    (void)close(listener);
    measure(limits);
    finish(limits, pids, count);
}

static uint64_t number_of(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    unsigned shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (end == text || value == 0 || (shift != 0 ? end[1] : *end) != '\0') {
        (void)fprintf(stderr, "limits-bench: %s is no size\n", text);
        exit(2);
    }
    return value << shift;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"size", 1, NULL, 's'},   {"seconds", 1, NULL, 't'},
                                            {"window", 1, NULL, 'w'}, {"subs", 1, NULL, 'n'},
                                            {"chunk", 1, NULL, 'c'},  {NULL, 0, NULL, 0}};
    struct limits limits = {.size = 1 << 20, .seconds = 0.6, .subs = 1, .chunk = 1 << 20};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (option) {
        case 's':
            limits.size = number_of(optarg) / 8 * 8;
            break;
        case 't':
            limits.seconds = atof(optarg);
            break;
        case 'w':
            limits.window = number_of(optarg);
            break;
        case 'n':
            limits.subs = (unsigned)number_of(optarg);
            break;
        case 'c':
            limits.chunk = number_of(optarg);
            break;
        default:
            return 2;
        }
    }
    limits.kind = optind < argc ? argv[optind] : "";
    bool is_fanout = strcmp(limits.kind, "fanout") == 0;
    bool is_raw = strcmp(limits.kind, "raw") == 0;
    bool is_tcp = is_fanout || is_raw || strcmp(limits.kind, "tcp") == 0;
    if ((!is_tcp && strcmp(limits.kind, "lease") != 0 && strcmp(limits.kind, "copy") != 0) ||
        limits.size < 8 || limits.subs == 0 || limits.subs > SUBS_MAX) {
        (void)fprintf(stderr,
                      "usage: limits-bench lease|copy|tcp|raw|fanout --size N [--seconds S] "
                      "[--window N] [--subs N] [--chunk N]\n");
        return 2;
    }
    if (limits.window == 0) {
        limits.window = WINDOW_BYTES / limits.size;
        limits.window = limits.window < WINDOW_MIN   ? WINDOW_MIN
                        : limits.window > WINDOW_MAX ? WINDOW_MAX
                                                     : limits.window;
    }
    limits.has_touch = !is_fanout && !is_raw;
    limits.chunk = is_fanout ? limits.size : limits.chunk;
    limits.shared = map(sizeof(*limits.shared));
    (is_tcp ? run_tcp : run_shm)(&limits);
    return get(&limits.shared->wrong) == 0 ? 0 : 1;
}
