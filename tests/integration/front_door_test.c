/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front doors of a real brokerd under 1,000 connections of each kind of misbehaviour, on the
 * Unix socket and on TCP. It lives, closes all of them in time, leaks no descriptor, and burns no
 * core afterwards. An honest client gets in all the while. Then the same with far too few
 * descriptors.
 *
 *   front_door_test BROKERD
 */
#include "tests/support/process/brokerd_process.h"
#include "tests/support/process/honest_client.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CROWD 1000u
#define TRICKLE_MS 100
/* The broker looks at deadlines every 250 ms, and waits for its turn where others compile. */
#define MARGIN_MS 10000
#define HONEST_FAILED_ONE_IN 20u
#define IDLE_CPU_MS 30 /* of a second */
#define HARD_TIMEOUT_S 85

struct attack {
    const char *name;
    const uint8_t *bytes;
    size_t len;
    bool is_trickled; /* one byte every 100 ms */
    bool is_reset;    /* and then RST */
    int extra_ms;     /* how much later than the handshake timeout they may be closed */
};

static struct honest_prober prober;
static int crowd[CROWD];

/* Sends what it can; that a broker has closed already is what it may do. */
static void attack_send(int fd, const uint8_t *bytes, size_t len)
{
    ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

static unsigned crowd_connect(const struct brokerd *brokerd, bool is_unix,
                              const struct attack *attack)
{
    unsigned count = 0;
    for (unsigned i = 0; i < CROWD; i++) {
        int fd = brokerd_connect(brokerd, is_unix);
        if (fd < 0) {
            test_fail("%s: connection %u: %s", attack->name, i, strerror(errno));
        }
        if (!attack->is_trickled) {
            attack_send(fd, attack->bytes, attack->len);
        }
        if (attack->is_reset) {
            struct linger linger = {.l_onoff = 1, .l_linger = 0};
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
            (void)close(fd);
            continue;
        }
        crowd[count++] = fd;
    }
    return count;
}

/* Has the broker closed this one? Answers are read and thrown away. */
static bool is_closed(int fd)
{
    uint8_t bytes[4096];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
    }
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Waits until the broker has closed all; returns how many it has not. */
static unsigned crowd_await(const struct attack *attack, unsigned count, int64_t deadline_ns)
{
    int64_t trickle_ns = amb_clock_monotonic_ns();
    size_t sent = 0;
    while (count > 0 && amb_clock_monotonic_ns() < deadline_ns) {
        if (attack->is_trickled && amb_clock_monotonic_ns() >= trickle_ns) {
            for (unsigned i = 0; i < count && sent < attack->len; i++) {
                attack_send(crowd[i], attack->bytes + sent, 1);
            }
            sent++;
            trickle_ns += TRICKLE_MS * AMB_NS_PER_MS;
        }
        unsigned left = 0;
        for (unsigned i = 0; i < count; i++) {
            if (is_closed(crowd[i])) {
                (void)close(crowd[i]);
            } else {
                crowd[left++] = crowd[i];
            }
        }
        count = left;
        (void)poll(NULL, 0, 10);
    }
    return count;
}

static void expect_calm(const struct brokerd *brokerd, const char *after, unsigned fds)
{
    if (!brokerd_is_alive(brokerd)) {
        test_fail("%s: brokerd has died", after);
    }
    unsigned left = brokerd_await_fds(brokerd, fds);
    if (left > fds) {
        test_fail("%s: brokerd has %u descriptors open, %u before", after, left, fds);
    }
}

static void run_attack(const struct brokerd *brokerd, bool is_unix, const struct attack *attack,
                       int timeout_ms)
{
    unsigned fds = brokerd_await_fds(brokerd, 0xffff);
    honest_prober_start(&prober, brokerd);
    int64_t begin_ns = amb_clock_monotonic_ns();
    unsigned count = crowd_connect(brokerd, is_unix, attack);
    int64_t last_ns = amb_clock_monotonic_ns();
    int64_t allowed_ns = (timeout_ms + attack->extra_ms + MARGIN_MS) * AMB_NS_PER_MS;
    unsigned left = crowd_await(attack, count, last_ns + allowed_ns);
    int64_t end_ns = amb_clock_monotonic_ns();
    honest_prober_stop(&prober);
    const char *door = is_unix ? "unix" : "tcp";
    if (left > 0) {
        test_fail("%s on %s: %u connections are still open", attack->name, door, left);
    }
    /* A flood of connections that have said Hello may push out an honest one that is slow to go on.
     * That is rare, and it may come again at once. */
    if (prober.failed * HONEST_FAILED_ONE_IN > prober.count || prober.count == 0) {
        test_fail("%s on %s: an honest client got no %s (%u of %u failed)", attack->name, door,
                  prober.what == NULL ? "turn" : prober.what, prober.failed,
                  prober.failed + prober.count);
    }
    expect_calm(brokerd, attack->name, fds);
    (void)printf(
        "%-14s %-4s  closed after %5lld ms  honest handshakes: %3u (%u failed), p50 %lld us, "
        "p99 %lld us, max %lld us\n",
        attack->name, door, (long long)((end_ns - begin_ns) / AMB_NS_PER_MS), prober.count,
        prober.failed, (long long)honest_prober_us(&prober, 500),
        (long long)honest_prober_us(&prober, 990), (long long)honest_prober_us(&prober, 1000));
}

static void expect_idle(const struct brokerd *brokerd)
{
    int64_t before_ms = brokerd_cpu_ms(brokerd);
    (void)poll(NULL, 0, 1000);
    int64_t burnt_ms = brokerd_cpu_ms(brokerd) - before_ms;
    (void)printf("idle afterwards: %lld ms of CPU in a second\n", (long long)burnt_ms);
    if (burnt_ms > IDLE_CPU_MS) {
        test_fail("brokerd burns %lld ms of CPU a second with nobody there", (long long)burnt_ms);
    }
}

/* Random bytes that do not begin like ours. */
static const uint8_t *garbage(void)
{
    static uint8_t bytes[3000];
    uint32_t x = 2463534242u;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        bytes[i] = (uint8_t)x;
    }
    bytes[0] = 0x93;
    return bytes;
}

static void attack_doors(const char *program)
{
    static const char *const options[] = {"server.handshake_timeout=1s", "limits.peer_timeout=1s",
                                          "limits.heartbeat=200ms",      "log.level=warn",
                                          "auth.token=" HONEST_TOKEN,    NULL};
    static const char http[] = "GET / HTTP/1.1\r\nHost: broker\r\n\r\n";
    static const uint8_t half[] = {'A', 'M', 'B', 1, 100, 0, 0, 0, 0x12};
    static const uint8_t zero[] = {'A', 'M', 'B', 1, 0, 0, 0, 0};
    static const uint8_t over[] = {'A', 'M', 'B', 1, 1, 0, 1, 0};
    static const uint8_t half_max[] = {'A', 'M', 'B', 1, 0, 0, 0, 0x80};
    static const uint8_t max[] = {'A', 'M', 'B', 1, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t slow[] = {'A', 'M', 'B', 1,  0xff, 0xff, 0,  0,  1,  2,  3,
                                   4,   5,   6,   7,  8,    9,    10, 11, 12, 13, 14,
                                   15,  16,  17,  18, 19,   20,   21, 22, 23};
    struct brokerd brokerd;
    brokerd_start(&brokerd, program, options, 0);
    uint8_t recorded[512];
    size_t recorded_len = 0;
    const char *what = "";
    if (!honest_handshake(&brokerd, false, &what, recorded, &recorded_len)) {
        test_fail("no honest handshake to record: %s", what);
    }
    const struct attack attacks[] = {
        {.name = "garbage", .bytes = garbage(), .len = 3000},
        {.name = "silence", .bytes = half, .len = 0},
        {.name = "half a message", .bytes = half, .len = sizeof(half)},
        {.name = "reset", .bytes = half, .len = 4, .is_reset = true},
        {.name = "HTTP", .bytes = (const uint8_t *)http, .len = sizeof(http) - 1},
        /* On the Unix socket the kernel vouches for the client: it lives until its heart stops. */
        {.name = "replay", .bytes = recorded, .len = recorded_len, .extra_ms = 1000},
        {.name = "trickle", .bytes = slow, .len = sizeof(slow), .is_trickled = true},
        {.name = "length 0", .bytes = zero, .len = sizeof(zero)},
        {.name = "length 2^16+1", .bytes = over, .len = sizeof(over)},
        {.name = "length 2^31", .bytes = half_max, .len = sizeof(half_max)},
        {.name = "length 2^32-1", .bytes = max, .len = sizeof(max)},
    };
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        run_attack(&brokerd, true, &attacks[i], 1000);
        run_attack(&brokerd, false, &attacks[i], 1000);
    }
    expect_idle(&brokerd);
    brokerd_stop(&brokerd);
}

/* As installed: 5 s, and a broker that has slept for a while before. */
static void attack_with_defaults(const char *program)
{
    static const char *const options[] = {"log.level=warn", "auth.token=" HONEST_TOKEN, NULL};
    static const uint8_t half[] = {'A', 'M', 'B', 1, 100, 0, 0, 0, 0x12};
    const struct attack attack = {.name = "default, half", .bytes = half, .len = sizeof(half)};
    struct brokerd brokerd;
    brokerd_start(&brokerd, program, options, 0);
    (void)poll(NULL, 0, 1500); /* Its sleep must not count as theirs. */
    run_attack(&brokerd, false, &attack, 5000);
    brokerd_stop(&brokerd);
}

/* Clients of all kinds at once, more than there are descriptors for. */
static void crowd_of_all_kinds(const struct brokerd *brokerd, const uint8_t *hello, size_t len)
{
    enum {
        CLIENTS = 250
    };
    unsigned count = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        int fd = brokerd_connect(brokerd, i % 2 == 0);
        if (fd < 0) {
            continue;
        }
        if (i % 3 == 0) {
            attack_send(fd, hello, len); /* On the Unix socket: a session of its own. */
        } else if (i % 3 == 1) {
            attack_send(fd, hello, 7);
        }
        crowd[count++] = fd;
    }
    for (unsigned i = 0; i < count; i++) {
        (void)close(crowd[i]);
    }
}

/* Rounds of them; somebody honest gets in after each. */
static void survive_crowds(const struct brokerd *brokerd, const uint8_t *hello, size_t len,
                           unsigned descriptors)
{
    enum {
        ROUNDS = 20
    };
    const char *what = "";
    unsigned before = brokerd_log_lines(brokerd);
    int64_t begin_ns = amb_clock_monotonic_ns();
    for (unsigned round = 0; round < ROUNDS; round++) {
        crowd_of_all_kinds(brokerd, hello, len);
        bool is_in = false;
        for (unsigned tries = 0; tries < 200 && !is_in; tries++) {
            is_in = honest_handshake(brokerd, round % 2 == 0, &what, NULL, NULL);
            (void)poll(NULL, 0, is_in ? 0 : 10);
        }
        if (!is_in) {
            test_fail("round %u: nobody gets in any more (%s)", round, what);
        }
    }
    int64_t took_ms = (amb_clock_monotonic_ns() - begin_ns) / AMB_NS_PER_MS;
    unsigned lines = brokerd_log_lines(brokerd) - before;
    (void)printf("%u descriptors, %u rounds of 250 clients in %lld ms, %u log lines\n", descriptors,
                 ROUNDS, (long long)took_ms, lines);
    if (lines > 20 + 2 * (unsigned)(took_ms / 1000)) {
        test_fail("the log is flooded: %u lines", lines);
    }
}

/* So few that the broker just starts; then fewer than it has reckoned with. */
static void too_few_descriptors(const char *program)
{
    enum {
        DESCRIPTORS = 200,
        LEFT = 12
    };
    static const char *const options[] = {"log.level=warn",
                                          "auth.token=" HONEST_TOKEN,
                                          "server.handshake_timeout=1s",
                                          "limits.peer_timeout=1s",
                                          "limits.heartbeat=200ms",
                                          "server.workers=1",
                                          NULL};
    struct brokerd brokerd;
    brokerd_start(&brokerd, program, options, DESCRIPTORS);
    uint8_t recorded[512];
    size_t recorded_len = 0;
    const char *what = "";
    if (!honest_handshake(&brokerd, true, &what, recorded, &recorded_len)) {
        test_fail("no honest handshake to record: %s", what);
    }
    unsigned fds = brokerd_await_fds(&brokerd, 0xffff);
    survive_crowds(&brokerd, recorded, recorded_len, DESCRIPTORS);
    expect_calm(&brokerd, "few descriptors", fds);
    struct rlimit fewer = {.rlim_cur = fds + LEFT, .rlim_max = DESCRIPTORS};
    if (prlimit(brokerd.pid, RLIMIT_NOFILE, &fewer, NULL) != 0) {
        test_fail("prlimit: %s", strerror(errno));
    }
    survive_crowds(&brokerd, recorded, recorded_len, fds + LEFT);
    expect_calm(&brokerd, "too few descriptors", fds);
    expect_idle(&brokerd);
    brokerd_stop(&brokerd);
}

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        test_fail("getrlimit: %s", strerror(errno));
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < CROWD + 64) {
        (void)printf("skipped: ulimit -n is too small for %u connections\n", CROWD);
        exit(77);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        test_fail("usage: front_door_test BROKERD");
    }
    (void)alarm(HARD_TIMEOUT_S);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    raise_descriptors();
    attack_doors(argv[1]);
    attack_with_defaults(argv[1]);
    too_few_descriptors(argv[1]);
    return EXIT_SUCCESS;
}
