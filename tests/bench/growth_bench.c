/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads for growth.py that broker-bench does not have:
 *
 *     growth-bench topics URL BROKER_PID TOPICS BURST SECONDS   one subscription to them all
 *     growth-bench hold URL CLIENTS                             connected, subscribed, silent
 *
 * topics: BURST messages of 64 bytes to each topic in turn. It takes as many connections as the
 * handles of one do not suffice for. A process of its own receives. hold: prints "holding" and
 * stays until its standard input ends.
 *
 * Threads: one a process (and libamb's). Memory: given back by the end of the process.
 */
#include "tools/common/proc.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 64u
#define PUBS_OF_CONN 1000u
#define TOPICS_MAX 10000u
#define CLIENTS_MAX 1000u
#define MANY 256u
#define WARM_NS (300 * AMB_MS)
#define SEND_NS (10 * AMB_SEC)

struct shared {
    _Atomic uint64_t received;
    _Atomic bool is_ready, is_over;
};

static void must(const char *what, enum amb_status status)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "growth-bench: %s: %s\n", what, amb_strerror(status));
        exit(1);
    }
}

static void receive(const char *url, struct shared *shared)
{
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_msg *msgs[MANY];
    must("connect", amb_connect(url, AMB_OPTIONS(.name = "growth-sub"), &conn));
    must("subscribe",
         amb_subscribe(conn, "growth.>",
                       AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = 60 * AMB_SEC), &sub));
    atomic_store(&shared->is_ready, true);
    while (!atomic_load_explicit(&shared->is_over, memory_order_relaxed)) {
        size_t count = 0;
        enum amb_status status = amb_next_many(sub, 50 * AMB_MS, msgs, MANY, &count);
        if (status != AMB_OK && status != AMB_ETIMEDOUT) {
            must("receive", status);
        }
        for (size_t i = 0; i < count; i++) {
            amb_msg_release(msgs[i]);
        }
        atomic_fetch_add_explicit(&shared->received, count, memory_order_relaxed);
    }
    (void)amb_close(conn, AMB_SEC);
}

static void open_topics(const char *url, unsigned count, struct amb_pub **pubs)
{
    struct amb_conn *conn = NULL;
    for (unsigned i = 0; i < count; i++) {
        char topic[32];
        if (i % PUBS_OF_CONN == 0) {
            must("connect", amb_connect(url, AMB_OPTIONS(.name = "growth-pub"), &conn));
        }
        (void)snprintf(topic, sizeof(topic), "growth.t%u", i);
        must(topic, amb_pub_open(conn, topic, NULL, &pubs[i]));
    }
}

/* Publishes until the time has come, without looking at the clock for every message. */
static uint64_t publish(struct amb_pub **pubs, unsigned count, unsigned burst, int64_t until_ns)
{
    static unsigned next;
    static const char payload[SIZE];
    uint64_t sent = 0;
    while (amb_clock_monotonic_ns() < until_ns) {
        for (unsigned turn = 0; turn < 64; turn++) {
            for (unsigned i = 0; i < burst; i++) {
                must("send", amb_pub_send(pubs[next], payload, SIZE, SEND_NS));
            }
            sent += burst;
            next = (next + 1) % count;
        }
    }
    return sent;
}

static int run_topics(char **argv)
{
    static struct amb_pub *pubs[TOPICS_MAX];
    pid_t broker = (pid_t)strtol(argv[3], NULL, 10);
    unsigned count = (unsigned)strtoul(argv[4], NULL, 10);
    unsigned burst = (unsigned)strtoul(argv[5], NULL, 10);
    int64_t length_ns = (int64_t)(strtod(argv[6], NULL) * (double)AMB_SEC);
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count < 1 || count > TOPICS_MAX || burst < 1 || shared == MAP_FAILED) {
        return 64;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        receive(argv[2], shared);
        _exit(0);
    }
    while (!atomic_load(&shared->is_ready)) {
        (void)usleep(1000);
        if (waitpid(child, NULL, WNOHANG) != 0) {
            return 1;
        }
    }
    open_topics(argv[2], count, pubs);
    (void)publish(pubs, count, burst, amb_clock_monotonic_ns() + WARM_NS);
    int64_t start_ns = amb_clock_monotonic_ns();
    int64_t cpu_ns = amb_proc_cpu_ns(broker);
    uint64_t before = atomic_load(&shared->received);
    (void)publish(pubs, count, burst, start_ns + length_ns);
    double messages = (double)(atomic_load(&shared->received) - before);
    double seconds = (double)(amb_clock_monotonic_ns() - start_ns) / (double)AMB_SEC;
    double cpu_s = (double)(amb_proc_cpu_ns(broker) - cpu_ns) / (double)AMB_SEC;
    struct amb_proc_memory memory;
    amb_proc_memory(broker, &memory);
    atomic_store(&shared->is_over, true);
    (void)waitpid(child, NULL, 0);
    (void)printf("{\"status\":\"ok\",\"topics\":%u,\"burst\":%u,\"msgs_per_s\":%.0f,"
                 "\"broker_cpu_s_per_mmsg\":%.4f,\"broker_anon_bytes\":%llu}\n",
                 count, burst, messages / seconds, messages > 0 ? cpu_s * 1e6 / messages : 0,
                 (unsigned long long)memory.anon_bytes);
    (void)fflush(stdout);
    _exit(0);
}

static int run_hold(char **argv)
{
    unsigned count = (unsigned)strtoul(argv[3], NULL, 10);
    char byte;
    for (unsigned i = 0; i < count && i < CLIENTS_MAX; i++) {
        struct amb_conn *conn;
        struct amb_sub *sub;
        char topic[32];
        (void)snprintf(topic, sizeof(topic), "hold.t%u", i);
        must("connect", amb_connect(argv[2], AMB_OPTIONS(.name = "growth-hold"), &conn));
        must("subscribe", amb_subscribe(conn, topic, NULL, &sub));
    }
    (void)puts("holding");
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "topics") == 0) {
        return run_topics(argv);
    }
    if (argc == 4 && strcmp(argv[1], "hold") == 0) {
        return run_hold(argv);
    }
    (void)fprintf(stderr, "usage: growth-bench topics URL BROKER_PID TOPICS BURST SECONDS\n"
                          "       growth-bench hold URL CLIENTS\n");
    return 64;
}
