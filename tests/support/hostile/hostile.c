/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hostile client: logs in as anybody may, and then does one bad thing, over and over, each time
 * in a process of its own.
 *
 *     hostile SOCKET TCP_PORT [--seed N] [--rounds N] [--only ATTACK,...] [--beside N] [--greedy S]
 *
 * The seed of a round says what happens in it: `--seed N --rounds 1` does it again. N at a time
 * beside each other. `--greedy S` runs the greedy attacks alone, all of them at once and each again
 * and again, for S seconds. Their verdicts count for nothing then; the limits that they met count.
 * Prints a line of JSON: what was done, and how often the session was ended for it. Exit 1: the
 * broker let something happen that it must not; a line on standard error says what.
 */
#include "tests/support/hostile/hostile.h"

#include "wire/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTACKS_MAX 96u
#define PATIENCE_MS 30000
#define OFFER_MS 10000 /* until a segment is offered, on the busiest machine */
#define ROUND_S 120u

/* Shared with the rounds' processes. */
struct tally {
    uint32_t run, ended, told, refused;
    char text[200]; /* the latest reason given */
};

static struct {
    const char *socket, *only;
    uint16_t port;
    uint64_t seed, rounds, beside, greedy_s;
    const struct hostile_attack *attacks[ATTACKS_MAX];
    unsigned attack_count;
    struct tally *tallies;
    int modes; /* a file without bytes, which the rounds' processes lock */
} the = {.rounds = 100, .beside = 2};

static void lock_modes(short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    if (fcntl(the.modes, F_SETLKW, &lock) != 0) {
        hostile_fail("the modes cannot be locked: %s", strerror(errno));
    }
}

void hostile_modes_hold(bool may_change)
{
    lock_modes(may_change ? F_WRLCK : F_RDLCK);
}

void hostile_modes_release(void)
{
    lock_modes(F_UNLCK);
}

void hostile_traffic(struct hostile *h, int ms)
{
    int64_t until_ns = amb_clock_monotonic_ns() + ms * AMB_NS_PER_MS;
    do {
        for (uint32_t i = 0; i < 2; i++) {
            uint64_t size =
                hostile_below(h, 20) == 0 ? hostile_below(h, 30000) : hostile_below(h, 500);
            if (h->pubs[i].is_open) {
                (void)hostile_publish(h, i, size);
            }
        }
        hostile_live(h, 0);
    } while (amb_clock_monotonic_ns() < until_ns && !h->is_over);
}

/* Logged in, and segments mapped where the dice say so. */
static void set_out(struct hostile *h)
{
    if (!hostile_login(h, AMB_LINK_RING)) {
        hostile_fail("the broker lets nobody in: %d %s", h->over_status, h->over_text);
    }
    char topic[64];
    (void)snprintf(topic, sizeof(topic), "hostile.t%u", (unsigned)hostile_below(h, 32));
    h->is_deaf = hostile_below(h, 8) == 0;
    /* All are open, or an attack on one would be a frame for nobody, which is ignored. */
    (void)hostile_await(h, hostile_pub_open(h, 0, topic, hostile_below(h, 2) == 0));
    (void)hostile_await(h, hostile_pub_open(h, 1, "hostile.one", true));
    (void)hostile_await(
        h, hostile_subscribe(h, 0, "hostile.>", AMB_SLOW_DROP_OLDEST, UINT64_C(1) << 20, false));
    (void)hostile_await(h, hostile_subscribe(h, 1, "check.>", AMB_SLOW_DROP_OLDEST,
                                             UINT64_C(16) << 20, hostile_below(h, 4) == 0));
    /* A busy machine offers segments late, and attacks on them would pass without one. */
    bool is_offered = !h->is_deaf && h->may_map && !h->is_greedy;
    int tries = is_offered ? OFFER_MS : 20;
    for (int i = 0; i < tries && h->segment_count == 0 && !h->is_over; i++) {
        hostile_traffic(h, 1);
    }
    if (h->is_over) {
        hostile_fail("ended before the attack: %d %s", h->over_status, h->over_text);
    }
}

/* Control and link still do what they should. */
static bool is_served(struct hostile *h)
{
    int64_t mark = (int64_t)(hostile_random(h) >> 1);
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_MS * AMB_NS_PER_MS;
    hostile_ping(h, mark);
    while (!h->is_over && h->pong != mark) {
        if (amb_clock_monotonic_ns() > deadline_ns) {
            hostile_fail("neither ended nor served: no Pong");
        }
        hostile_live(h, 1);
    }
    return !h->is_over;
}

/* Its batches are still taken. */
static void expect_accepted(struct hostile *h)
{
    struct hostile_pub *pub = &h->pubs[1];
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_MS * AMB_NS_PER_MS;
    h->keeps_deliveries = false;
    while (h->link != NULL && pub->is_open && !h->is_over && pub->accepted < pub->batches) {
        if (amb_clock_monotonic_ns() > deadline_ns) {
            hostile_fail("batch %llu of %llu is not accepted", (unsigned long long)pub->accepted,
                         (unsigned long long)pub->batches);
        }
        hostile_live(h, 1);
    }
}

static void judge(struct hostile *h, enum hostile_verdict verdict, struct tally *tally)
{
    if (h->link != NULL && !h->is_down && !h->is_over) {
        amb_link_flush(h->link);
    }
    if (verdict == HOSTILE_ENDS && !h->is_over) {
        hostile_live(h, PATIENCE_MS);
    } else if (verdict == HOSTILE_LIVES && is_served(h)) {
        expect_accepted(h);
    } else if (verdict == HOSTILE_EITHER) {
        (void)is_served(h);
    }
    if (verdict == HOSTILE_LIVES && h->is_over) {
        hostile_fail("ended for nothing: %d %s", h->over_status, h->over_text);
    }
    if (verdict == HOSTILE_ENDS &&
        (!h->is_over || h->over_text[0] == '\0' || strstr(h->over_text, "heartbeat") != NULL)) {
        hostile_fail("%s: %s", h->is_over ? "ended without a reason of its own" : "not ended",
                     h->over_text);
    }
    if (h->is_over) {
        (void)__atomic_fetch_add(&tally->ended, 1, __ATOMIC_RELAXED);
        if (h->over_text[0] != '\0') {
            (void)__atomic_fetch_add(&tally->told, 1, __ATOMIC_RELAXED);
            (void)snprintf(tally->text, sizeof(tally->text), "%d %.180s", h->over_status,
                           h->over_text);
        }
    }
}

/* The limit that it met, if it was told one. */
static void note_greed(const struct hostile *h, struct tally *tally)
{
    const char *text = h->over_text[0] != '\0' ? h->over_text : h->refused_text;
    (void)__atomic_fetch_add(&tally->ended, h->is_over, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&tally->told, h->over_text[0] != '\0', __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&tally->refused, h->errors > 0, __ATOMIC_RELAXED);
    if (text[0] != '\0') {
        (void)snprintf(tally->text, sizeof(tally->text), "%.190s", text);
    }
}

/* As politely as the dice say. */
static _Noreturn void leave(struct hostile *h)
{
    switch (hostile_below(h, 4)) {
    case 0:
        (void)raise(SIGKILL);
        break;
    case 1: {
        Amb__Control__Control message;
        amb__control__control__init(&message);
        Amb__Control__Bye bye;
        amb__control__bye__init(&bye);
        message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
        message.bye = &bye;
        if (!h->is_over && h->control >= 0) {
            (void)hostile_send_fds(h, &message, NULL, 0);
        }
        break;
    }
    case 2:
        (void)close(h->control);
        (void)usleep((useconds_t)hostile_below(h, 3000));
        break;
    default:
        break;
    }
    _exit(EXIT_SUCCESS);
}

static _Noreturn void round_main(uint64_t seed)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(ROUND_S);
    unsigned index = (unsigned)(seed % the.attack_count); /* each in turn */
    const struct hostile_attack *attack = the.attacks[index];
    struct tally *tally = &the.tallies[index];
    static struct hostile h;
    hostile_name(attack->name, seed);
    hostile_init(&h, the.socket, the.port, seed);
    h.is_greedy = the.greedy_s != 0;
    if (!attack->is_bare) {
        set_out(&h);
    }
    (void)__atomic_fetch_add(&tally->run, 1, __ATOMIC_RELAXED);
    enum hostile_verdict verdict = attack->run(&h);
    if (h.is_greedy) {
        hostile_hear(&h, 0);
        note_greed(&h, tally);
    } else {
        judge(&h, verdict, tally);
    }
    leave(&h);
}

static void collect(void)
{
    int status;
    pid_t pid = wait(&status);
    if (pid < 0) {
        (void)fprintf(stderr, "wait: %s\n", strerror(errno));
        exit(EXIT_FAILURE);
    }
    bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (status != 0 && !is_killed) {
        (void)fprintf(stderr, "a round ended with %#x\n", (unsigned)status);
        exit(EXIT_FAILURE);
    }
}

static void run_rounds(void)
{
    uint64_t running = 0;
    for (uint64_t i = 0; i < the.rounds; i++) {
        if (running == the.beside) {
            collect();
            running--;
        }
        pid_t pid = fork();
        if (pid == 0) {
            round_main(the.seed + i);
        }
        running++;
    }
    for (; running > 0; running--) {
        collect();
    }
}

/* Every attack in a process of its own, begun again whenever it ends. */
static void run_greedy(void)
{
    pid_t pids[ATTACKS_MAX] = {0};
    uint64_t round = the.seed;
    int64_t until_ns = amb_clock_monotonic_ns() + (int64_t)the.greedy_s * AMB_NS_PER_SEC;
    while (amb_clock_monotonic_ns() < until_ns) {
        for (unsigned i = 0; i < the.attack_count; i++) {
            if (pids[i] != 0 && waitpid(pids[i], NULL, WNOHANG) != pids[i]) {
                continue;
            }
            pids[i] = fork();
            if (pids[i] == 0) {
                round_main(round * the.attack_count + i);
            }
            round++;
        }
        (void)usleep(1000);
    }
    for (unsigned i = 0; i < the.attack_count; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
}

static bool is_wanted(const char *name)
{
    size_t len = strlen(name);
    for (const char *at = the.only; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return the.only == NULL;
}

static void add_attacks(const struct hostile_attack *attacks)
{
    for (; attacks->name != NULL; attacks++) {
        if (is_wanted(attacks->name) && (the.greedy_s == 0 || attacks->is_greedy) &&
            the.attack_count < ATTACKS_MAX) {
            the.attacks[the.attack_count++] = attacks;
        }
    }
}

/* Texts are the broker's: of what would end a string of JSON they may have quotes. */
static const char *quoted(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? '\'' : *c;
    }
    return text;
}

static void report(void)
{
    uint64_t ended = 0;
    (void)printf("{");
    for (unsigned i = 0; i < the.attack_count; i++) {
        struct tally *tally = &the.tallies[i];
        (void)printf("\"%s\": [%u, %u, %u, \"%s\"], ", the.attacks[i]->name, tally->run,
                     tally->ended, the.greedy_s != 0 ? tally->told + tally->refused : tally->told,
                     quoted(tally->text));
        ended += tally->ended;
    }
    (void)printf("\"ended\": %llu}\n", (unsigned long long)ended);
}

static void read_arguments(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: hostile SOCKET TCP_PORT [--seed N] [--rounds N] "
                              "[--only ATTACK,...] [--beside N] [--greedy S]\n");
        exit(64);
    }
    the.socket = argv[1];
    the.port = (uint16_t)strtoul(argv[2], NULL, 10);
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            the.seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--rounds") == 0) {
            the.rounds = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--only") == 0) {
            the.only = argv[i + 1];
        } else if (strcmp(argv[i], "--beside") == 0) {
            the.beside = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--greedy") == 0) {
            the.greedy_s = strtoull(argv[i + 1], NULL, 10);
        }
    }
}

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    add_attacks(hostile_memory_attacks);
    add_attacks(hostile_ring_attacks);
    add_attacks(hostile_frame_attacks);
    add_attacks(hostile_lease_attacks);
    add_attacks(hostile_control_attacks);
    add_attacks(hostile_stream_attacks);
    add_attacks(hostile_greed_attacks);
    the.tallies = mmap(NULL, sizeof(struct tally) * ATTACKS_MAX, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    the.modes = memfd_create("hostile-modes", MFD_CLOEXEC);
    if (the.tallies == MAP_FAILED || the.modes < 0 || the.attack_count == 0 || the.beside == 0) {
        (void)fprintf(stderr, "no such attack, or no memory\n");
        return EXIT_FAILURE;
    }
    if (the.greedy_s != 0) {
        run_greedy();
    } else {
        run_rounds();
    }
    report();
    return EXIT_SUCCESS;
}
