/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of a steady flow of messages, for rates.py; see rates.h.
 *
 *     rates-bench systems
 *     rates-bench SYSTEM proxy IN OUT
 *     rates-bench SYSTEM subscribe ADDRESS COUNT
 *     rates-bench SYSTEM publish ADDRESS RATE SIZE COUNT
 *
 * The first prints the systems that are built in. A publisher prints "ready", waits for a line,
 * prints "started", sends COUNT messages, and prints
 *
 *     sent COUNT LATE
 *
 * LATE are those that left after the next one was due. The schedule is absolute: a sleep that ends
 * late moves no later message. SYSTEM "none" sends nothing: it is what the schedule costs.
 *
 * A subscriber of at most COUNT messages prints "ready" and waits for a line "SENT FIRST END". It
 * waits for what is still on its way, and prints, with the latency of the messages FIRST to END -
 * 1:
 *
 *     got COUNT AGAIN P50_US P99_US
 */
#include "tests/bench/rates/rates.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define SIZE_MAX_BYTES 65536u
#define DRAIN_STEPS 500 /* how often a report looks for messages that are on their way */
#define DRAIN_STEP_US 10000u

static void none_open(const char *address)
{
    (void)address;
}

static void none_publish(const void *data, size_t len)
{
    (void)data;
    (void)len;
}

static const struct rates_system none = {"none", none_open, none_publish, NULL, NULL, NULL};

static const struct rates_system *const systems[] = {
    &none,        &rates_ambroker,
#ifdef RATES_NATS
    &rates_nats,
#endif
#ifdef RATES_REDIS
    &rates_redis,
#endif
#ifdef RATES_ZMQ
    &rates_zmq,
#endif
};

#define SYSTEMS (sizeof(systems) / sizeof(systems[0]))

/* Subscriber: the latency of each message, 0 before it comes. */
static int64_t *latency_ns;
static uint64_t room, again;
static _Atomic uint64_t taken;

void rates_fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "rates-bench: %s: %s\n", what, why);
    _exit(1);
}

static void say(const char *line)
{
    (void)puts(line);
    (void)fflush(stdout);
}

static uint64_t number_of(const char *text)
{
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);
    if (value == 0 || *end != '\0') {
        rates_fail("no number above 0", text);
    }
    return value;
}

/* Subscriber ----------------------------------------------------------------------------------- */

void rates_take(const void *data, size_t len)
{
    struct rates_head head;
    if (len < sizeof(head)) {
        rates_fail("receive", "a message is too short");
    }
    memcpy(&head, data, sizeof(head));
    if (head.number >= room) {
        rates_fail("receive", "a message has a number that nobody sent");
    }
    if (latency_ns[head.number] != 0) {
        again++;
        return;
    }
    latency_ns[head.number] = amb_clock_monotonic_ns() - head.sent_ns;
    atomic_fetch_add_explicit(&taken, 1, memory_order_release);
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Ends the process: the other thread stays in its library. */
static _Noreturn void report(uint64_t sent, uint64_t first, uint64_t end)
{
    for (int i = 0; i < DRAIN_STEPS && atomic_load(&taken) < sent; i++) {
        (void)usleep(DRAIN_STEP_US);
    }
    uint64_t count = 0, got = atomic_load(&taken);
    for (uint64_t i = first; i < end; i++) { /* those that came, from the front */
        if (latency_ns[i] != 0) {
            latency_ns[first + count++] = latency_ns[i];
        }
    }
    if (count == 0) {
        rates_fail("report", "no message has come");
    }
    qsort(latency_ns + first, count, sizeof(*latency_ns), compare);
    (void)printf("got %llu %llu %.2f %.2f\n", (unsigned long long)got, (unsigned long long)again,
                 (double)latency_ns[first + count / 2] / 1000,
                 (double)latency_ns[first + count * 99 / 100] / 1000);
    (void)fflush(stdout);
    _exit(0);
}

/* A thread that sleeps in one read, so the measured one can stay in its library's receive. */
static void *wait_for_report(void *arg)
{
    unsigned long long sent, first, end;
    char line[96];
    (void)arg;
    if (fgets(line, sizeof(line), stdin) == NULL) {
        _exit(1);
    }
    if (sscanf(line, "%llu %llu %llu", &sent, &first, &end) != 3 || first > end || end > room) {
        rates_fail("report", line);
    }
    report(sent, first, end);
}

static _Noreturn void run_subscriber(const struct rates_system *system, const char *address,
                                     uint64_t count)
{
    pthread_t thread;
    room = count;
    latency_ns = malloc(count * sizeof(*latency_ns));
    if (latency_ns == NULL) {
        rates_fail("start", "no memory");
    }
    memset(latency_ns, 0, count * sizeof(*latency_ns)); /* its pages are there from now on */
    system->subscribe(address);
    if (pthread_create(&thread, NULL, wait_for_report, NULL) != 0) {
        rates_fail("start", "no thread");
    }
    say("ready");
    for (;;) {
        system->receive();
    }
}

/* Publisher ------------------------------------------------------------------------------------ */

static void sleep_until(int64_t time_ns)
{
    struct timespec when = {.tv_sec = time_ns / SECOND_NS, .tv_nsec = time_ns % SECOND_NS};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR) {
    }
}

static void run_publisher(const struct rates_system *system, const char *address, uint64_t rate,
                          size_t size, uint64_t count)
{
    static uint8_t message[SIZE_MAX_BYTES];
    char line[16];
    uint64_t late = 0;
    int64_t period_ns = SECOND_NS / (int64_t)rate;
    if (size < sizeof(struct rates_head) || size > sizeof(message)) {
        rates_fail("SIZE", "16 to 65536");
    }
    system->open(address);
    say("ready");
    if (fgets(line, sizeof(line), stdin) == NULL) {
        rates_fail("run", "told to end");
    }
    say("started");
    int64_t start_ns = amb_clock_monotonic_ns() + period_ns;
    for (uint64_t i = 0; i < count; i++) {
        int64_t planned_ns = start_ns + (int64_t)i * period_ns;
        sleep_until(planned_ns);
        struct rates_head head = {.number = i, .sent_ns = amb_clock_monotonic_ns()};
        late += head.sent_ns - planned_ns > period_ns;
        memcpy(message, &head, sizeof(head));
        system->publish(message, size);
    }
    (void)printf("sent %llu %llu\n", (unsigned long long)count, (unsigned long long)late);
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) { /* The connection stays until input ends. */
    }
    _exit(0);
}

static const struct rates_system *system_of(const char *name)
{
    for (size_t i = 0; i < SYSTEMS; i++) {
        if (strcmp(name, systems[i]->name) == 0) {
            return systems[i];
        }
    }
    rates_fail("no such system", name);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "systems") == 0) {
        for (size_t i = 0; i < SYSTEMS; i++) {
            say(systems[i]->name);
        }
        return 0;
    }
    const struct rates_system *system = argc > 2 ? system_of(argv[1]) : NULL;
    const char *role = system != NULL ? argv[2] : "";
    if (argc == 5 && strcmp(role, "proxy") == 0 && system->proxy != NULL) {
        system->proxy(argv[3], argv[4]);
        return 0;
    }
    if (argc == 5 && strcmp(role, "subscribe") == 0 && system->subscribe != NULL) {
        run_subscriber(system, argv[3], number_of(argv[4]));
    }
    if (argc == 7 && strcmp(role, "publish") == 0) {
        run_publisher(system, argv[3], number_of(argv[4]), number_of(argv[5]), number_of(argv[6]));
    }
    (void)fputs(
        "usage: rates-bench systems | SYSTEM proxy IN OUT | SYSTEM subscribe ADDRESS COUNT |\n"
        "       SYSTEM publish ADDRESS RATE SIZE COUNT\n",
        stderr);
    return 64;
}
