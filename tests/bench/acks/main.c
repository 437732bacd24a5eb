/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acks-bench SYSTEM --address A --pid P [--size N] [--seconds S] [--members M]
 *            [--ack explicit|cumulative] [--group] [--stored] [--named]
 *            [--confirm accepted|delivered] [--push] [--batch N] [--pending N]
 *
 * [--topic T] [--steps] are for several at a time.
 *
 * One run against a server that is there. It publishes for S seconds and a quarter before, waits
 * until everything has come, and prints one object of JSON. See acks.h; acks.py runs them all.
 * --group: each message to one of the members, else to each of them.
 * --steps: prints "consumers" and "ready", and goes on after a line of standard input each time.
 */
#include "tests/bench/acks/acks.h"
#include "tools/common/proc.h"
#include "wire/base/clock.h"

#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS 1000000000.0
#define WARM_US 250000u
#define STUCK_NS ((int64_t)5000000000)
#define WINDOW_BYTES ((uint64_t)16 << 20)
#define WINDOW_MAX ((uint64_t)32768)
#define SIZE_MIN 16u
#define WAIT_US 20u

static const struct acks_system *const systems[] = {
    &acks_ambroker,
#ifdef ACKS_NATS
    &acks_nats,
#endif
#ifdef ACKS_REDIS
    &acks_redis,
#endif
};

/* One look at everything that counts. */
struct sample {
    int64_t time_ns, server_ns, busy_ns, own_ns;
    uint64_t taken, confirmed;
};

void acks_fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "acks-bench: %s: %s\n", what, why);
    _exit(1);
}

void acks_ready(struct acks_job *job)
{
    atomic_fetch_add(&job->shared->ready, 1);
    while (!atomic_load(&job->shared->is_going)) {
        acks_wait();
    }
}

void acks_wait(void)
{
    (void)usleep(WAIT_US);
}

/* In a group the messages that all have taken together, else those of the slowest. */
static uint64_t consumed(const struct acks_job *job)
{
    uint64_t sum = 0, least = UINT64_MAX;
    for (unsigned i = 0; i < job->members; i++) {
        uint64_t taken = atomic_load_explicit(&job->shared->members[i].taken, memory_order_relaxed);
        sum += taken;
        least = taken < least ? taken : least;
    }
    return job->is_group ? sum : least;
}

uint64_t acks_room(struct acks_job *job)
{
    uint64_t open = job->next - job->seen_consumed;
    if (open + job->batch > job->window) {
        job->seen_consumed = consumed(job);
        open = job->next - job->seen_consumed;
    }
    uint64_t room = job->window > open ? job->window - open : 0;
    return room < job->batch ? room : job->batch;
}

const void *acks_payload(struct acks_job *job)
{
    uint64_t ends[2] = {job->next + 1, ~(job->next + 1)};
    memcpy(job->payload, &ends[0], sizeof(ends[0]));
    memcpy(job->payload + job->size - sizeof(ends[1]), &ends[1], sizeof(ends[1]));
    return job->payload;
}

void acks_sent(struct acks_job *job)
{
    job->next++;
    atomic_store_explicit(&job->shared->sent, job->next, memory_order_relaxed);
}

void acks_confirmed(struct acks_job *job, uint64_t count)
{
    atomic_fetch_add_explicit(&job->shared->confirmed, count, memory_order_relaxed);
}

static void mark(struct acks_member *self, uint64_t seq)
{
    uint8_t bit = (uint8_t)(1u << (seq % 8));
    if (seq >= ACKS_MESSAGES_MAX) {
        acks_fail("receive", "more messages than there are bits for");
    }
    self->again += (self->seen[seq / 8] & bit) != 0;
    self->seen[seq / 8] |= bit;
}

void acks_take(struct acks_job *job, unsigned member, const void *data, size_t len)
{
    struct acks_member *self = &job->shared->members[member];
    uint64_t ends[2] = {0, 0};
    const uint8_t *bytes = data;
    job->mine++;
    if (len == job->size) {
        memcpy(&ends[0], bytes, sizeof(ends[0]));
        memcpy(&ends[1], bytes + len - sizeof(ends[1]), sizeof(ends[1]));
    }
    if (len != job->size || ends[0] != ~ends[1] ||
        memcmp(bytes + 8, job->expected + 8, len - 16) != 0) {
        self->damaged++;
        return;
    }
    if (job->is_group) {
        mark(self, ends[0]);
    } else if (ends[0] > job->next + 1) {
        self->lost += ends[0] - job->next - 1;
    }
    if (ends[0] <= job->next) {
        self->disorder++;
    } else {
        job->next = ends[0];
    }
}

void acks_taken(struct acks_job *job, unsigned member)
{
    if (job->mine > 0) {
        atomic_fetch_add_explicit(&job->shared->members[member].taken, job->mine,
                                  memory_order_relaxed);
        job->mine = 0;
    }
}

static void *shared_bytes(size_t len)
{
    void *at =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        acks_fail("start", "no memory");
    }
    return at;
}

/*
 * The server is prepared, and asked afterwards, by a process of its own. A library that has threads
 * and random numbers cannot be forked once it was used.
 */
static void in_child(struct acks_job *job, void (*what)(struct acks_job *))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        what(job);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        acks_fail("run", "the server cannot be prepared or asked");
    }
}

static void prepare_server(struct acks_job *job)
{
    job->system->prepare(job);
}

static void ask_server(struct acks_job *job)
{
    job->shared->unacked = job->system->unacked(job);
}

static void prepare(struct acks_job *job)
{
    uint64_t window = WINDOW_BYTES / job->size;
    job->window = window > WINDOW_MAX ? WINDOW_MAX : window;
    /* Told in batches: of large messages they are smaller, or all would wait for one another. */
    uint64_t most = job->window < 8 ? 1 : job->window / 8;
    job->batch = job->batch > most ? (unsigned)most : job->batch;
    job->shared = shared_bytes(sizeof(*job->shared));
    job->payload = shared_bytes(job->size);
    for (size_t i = 0; i < job->size; i++) {
        job->payload[i] = (uint8_t)(i * 7 + i / 251);
    }
    uint8_t *expected = shared_bytes(job->size);
    memcpy(expected, job->payload, job->size);
    job->expected = expected;
    for (unsigned i = 0; i < job->members && job->is_group; i++) {
        job->shared->members[i].seen = shared_bytes(ACKS_MESSAGES_MAX / 8);
    }
    in_child(job, prepare_server);
}

/* Forks: the publisher is number `members`. */
static pid_t start(struct acks_job *job, unsigned number)
{
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (number < job->members) {
            job->system->consume(job, number);
        } else {
            job->system->publish(job);
        }
        _exit(0);
    }
    if (child < 0) {
        acks_fail("start", "cannot fork");
    }
    return child;
}

static struct sample look(const struct acks_job *job, const pid_t *children, pid_t server)
{
    struct sample now = {.time_ns = amb_clock_monotonic_ns(),
                         .server_ns = amb_proc_cpu_ns(server),
                         .busy_ns = amb_proc_machine_busy_ns(),
                         .taken = 0,
                         .confirmed = atomic_load(&job->shared->confirmed)};
    now.own_ns = now.server_ns;
    for (unsigned i = 0; i <= job->members; i++) {
        now.own_ns += amb_proc_cpu_ns(children[i]);
    }
    for (unsigned i = 0; i < job->members; i++) {
        now.taken += atomic_load(&job->shared->members[i].taken);
    }
    return now;
}

/* Ends with the process where one of the children has ended too early. */
static void must_run(const pid_t *children, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (waitpid(children[i], NULL, WNOHANG) != 0) {
            acks_fail("run", "one of the clients has ended");
        }
    }
}

/* Until everything sent has come, or nothing has for five seconds. */
static void drain(struct acks_job *job, const pid_t *children)
{
    uint64_t last = 0;
    int64_t since_ns = amb_clock_monotonic_ns();
    int status = 0;
    (void)waitpid(children[job->members], &status, 0);
    if (status != 0) {
        acks_fail("publish", "the publisher has failed");
    }
    while (consumed(job) < atomic_load(&job->shared->sent)) {
        must_run(children, job->members);
        int64_t now_ns = amb_clock_monotonic_ns();
        if (consumed(job) != last) {
            last = consumed(job);
            since_ns = now_ns;
        }
        if (now_ns - since_ns > STUCK_NS) {
            break;
        }
        (void)usleep(1000);
    }
    atomic_store(&job->shared->is_stopped, true);
    for (unsigned i = 0; i < job->members; i++) {
        (void)waitpid(children[i], &status, 0);
        if (status != 0) {
            acks_fail("consume", "a consumer has failed");
        }
    }
}

/* Of a group: sequences that nobody has seen, and those that more than one has. */
static void judge_group(const struct acks_job *job, struct acks_member *out)
{
    uint64_t sent = atomic_load(&job->shared->sent);
    for (uint64_t seq = 1; seq <= sent; seq++) {
        unsigned count = 0;
        for (unsigned i = 0; i < job->members; i++) {
            count += ((unsigned)job->shared->members[i].seen[seq / 8] >> (seq % 8)) & 1u;
        }
        out->lost += count == 0;
        out->again += count > 1 ? count - 1 : 0;
    }
}

static bool report(const struct acks_job *job, const struct sample *from, const struct sample *to,
                   pid_t server)
{
    struct acks_member all = {0};
    uint64_t sent = atomic_load(&job->shared->sent), taken = 0;
    uint64_t confirmed = atomic_load(&job->shared->confirmed);
    uint64_t unacked = job->shared->unacked;
    struct amb_proc_memory memory;
    amb_proc_memory(server, &memory);
    for (unsigned i = 0; i < job->members; i++) {
        const struct acks_member *member = &job->shared->members[i];
        taken += atomic_load(&member->taken);
        all.lost += member->lost;
        all.again += member->again;
        all.disorder += member->disorder;
        all.damaged += member->damaged;
    }
    if (job->is_group) {
        judge_group(job, &all);
    } else if (taken < sent * job->members) {
        all.lost = sent * job->members - taken;
    }
    double seconds = (double)(to->time_ns - from->time_ns) / SECOND_NS;
    double messages = (double)(to->taken - from->taken);
    double others = (double)(to->busy_ns - from->busy_ns - (to->own_ns - from->own_ns));
    bool is_good = all.lost + all.again + all.disorder + all.damaged + unacked == 0 &&
                   (job->confirm == ACKS_UNCONFIRMED || confirmed == sent);
    (void)printf(
        "{\"status\":\"%s\",\"msgs_per_s\":%.0f,\"mb_per_s\":%.1f,"
        "\"server_cpu_us_per_msg\":%.4f,\"server_peak_rss_mib\":%.1f,\"sent\":%llu,"
        "\"taken\":%llu,\"confirmed\":%llu,\"lost\":%llu,\"again\":%llu,"
        "\"disorder\":%llu,\"damaged\":%llu,\"unacked\":%llu,\"others\":%.3f}\n",
        is_good ? "ok" : "wrong", messages / seconds, messages / seconds * (double)job->size / 1e6,
        (double)(to->server_ns - from->server_ns) / 1000 / (messages > 0 ? messages : 1),
        (double)memory.peak_rss_bytes / 1048576, (unsigned long long)sent,
        (unsigned long long)taken, (unsigned long long)confirmed, (unsigned long long)all.lost,
        (unsigned long long)all.again, (unsigned long long)all.disorder,
        (unsigned long long)all.damaged, (unsigned long long)unacked,
        others / SECOND_NS / seconds / (double)sysconf(_SC_NPROCESSORS_ONLN));
    return is_good;
}

static void step(const struct acks_job *job, const char *name)
{
    char line[16];
    if (job->is_stepwise) {
        (void)puts(name);
        (void)fflush(stdout);
        if (fgets(line, sizeof(line), stdin) == NULL) {
            acks_fail("run", "told to end");
        }
    }
}

static bool run(struct acks_job *job, pid_t server, double seconds)
{
    pid_t children[ACKS_MEMBERS_MAX + 1];
    prepare(job);
    for (unsigned i = 0; i <= job->members; i++) { /* consumers first */
        children[i] = start(job, i);
        while (atomic_load(&job->shared->ready) <= i) {
            must_run(children, i + 1);
            (void)usleep(1000);
        }
        if (i + 1 >= job->members) {
            step(job, i == job->members ? "ready" : "consumers");
        }
    }
    atomic_store(&job->shared->is_going, true);
    (void)usleep(WARM_US);
    struct sample from = look(job, children, server);
    (void)usleep((useconds_t)(seconds * 1e6));
    struct sample to = look(job, children, server);
    atomic_store(&job->shared->is_over, true);
    drain(job, children);
    in_child(job, ask_server);
    return report(job, &from, &to, server);
}

static int one_of(const char *text, const char *const *names, int count)
{
    for (int i = 1; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    acks_fail("unknown value", text);
}

/* An option's value; false: there is no such option. */
static bool take_option(struct acks_job *job, int option)
{
    static const char *const acks[] = {"none", "explicit", "cumulative"};
    static const char *const confirms[] = {"none", "accepted", "delivered"};
    switch (option) {
    case 'k':
        job->ack = (enum acks_ack)one_of(optarg, acks, 3);
        return true;
    case 'c':
        job->confirm = (enum acks_confirm)one_of(optarg, confirms, 3);
        return true;
    case 'a':
        job->address = optarg;
        return true;
    case 'z':
        job->size = strtoul(optarg, NULL, 10);
        return true;
    case 'm':
        job->members = (unsigned)strtoul(optarg, NULL, 10);
        return true;
    case 'b':
        job->batch = (unsigned)strtoul(optarg, NULL, 10);
        return true;
    case 'o':
        job->pending = (unsigned)strtoul(optarg, NULL, 10);
        return true;
    case 'T':
        job->topic = optarg;
        return true;
    case 'S':
        job->is_stepwise = true;
        return true;
    case 'g':
        job->is_group = true;
        return true;
    case 's':
        job->is_stored = true;
        return true;
    case 'n':
        job->is_named = true;
        return true;
    case 'h':
        job->is_push = true;
        return true;
    default:
        return false;
    }
}

static const struct acks_system *system_of(const char *name)
{
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
        if (name != NULL && strcmp(name, systems[i]->name) == 0) {
            return systems[i];
        }
    }
    acks_fail("no such system", name != NULL ? name : "none named");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"ack", 1, NULL, 'k'},     {"confirm", 1, NULL, 'c'}, {"address", 1, NULL, 'a'},
        {"pid", 1, NULL, 'p'},     {"size", 1, NULL, 'z'},    {"seconds", 1, NULL, 't'},
        {"members", 1, NULL, 'm'}, {"batch", 1, NULL, 'b'},   {"pending", 1, NULL, 'o'},
        {"group", 0, NULL, 'g'},   {"stored", 0, NULL, 's'},  {"named", 0, NULL, 'n'},
        {"push", 0, NULL, 'h'},    {"topic", 1, NULL, 'T'},   {"steps", 0, NULL, 'S'},
        {NULL, 0, NULL, 0}};
    struct acks_job job = {
        .topic = ACKS_TOPIC, .size = 64, .members = 1, .batch = 256, .pending = 16384};
    double seconds = 0.6;
    pid_t server = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') {
            server = (pid_t)strtol(optarg, NULL, 10);
        } else if (option == 't') {
            seconds = strtod(optarg, NULL);
        } else if (!take_option(&job, option)) {
            return 64;
        }
    }
    job.system = system_of(argv[optind]);
    if (job.address == NULL || server <= 0 || job.size < SIZE_MIN || job.batch < 1 ||
        job.members < 1 || job.members > ACKS_MEMBERS_MAX) {
        acks_fail("usage", "see the head of tests/bench/acks/main.c");
    }
    const char *why_not = job.system->refuses(&job);
    if (why_not != NULL) {
        (void)printf("{\"status\":\"refused\",\"why\":\"%s\"}\n", why_not);
        return 0;
    }
    return run(&job, server, seconds) ? 0 : 2;
}
