/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many idle subscribers in one process, for idle_clients.py.
 *
 *     idle-clients-bench ambroker|nats|redis|mqtt ADDRESS COUNT
 *
 * Connects COUNT clients one after the other, has each subscribe, and prints one line:
 *
 *     held COUNT CONNECT_MS SUBSCRIBE_MS WORST_MS
 *
 * The first two are medians of one client, the worst is of both together. The clients are kept
 * until the input ends. A client of a peer is a plain socket that speaks as much of the protocol as
 * that takes. ADDRESS: a URL of Ambroker, HOST:PORT or the path of a socket.
 */
#include <amb/amb.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ROUND_MS 100 /* how often our clients are polled: their heartbeats are due */

struct kind {
    const char *name;
    const char *login, *logged_in, *subscribe, *subscribed; /* said, and the end of the answer */
    size_t login_len, subscribe_len;
};

/* MQTT 3.1.1: CONNECT (clean, no keep alive), CONNACK; SUBSCRIBE "idle", SUBACK. */
static const char mqtt_connect[] = "\x10\x0c\0\4MQTT\4\2\0\0\0\0";
static const char mqtt_subscribe[] = "\x82\x09\0\1\0\4idle\0";
static const struct kind kinds[] = {
    {"ambroker", NULL, NULL, NULL, NULL, 0, 0},
    {"nats", "CONNECT {\"verbose\":false}\r\nPING\r\n", "PONG\r\n", "SUB idle 1\r\nPING\r\n",
     "PONG\r\n", 0, 0},
    {"redis", "PING\r\n", "+PONG\r\n", "SUBSCRIBE idle\r\n", ":1\r\n", 0, 0},
    {"mqtt", mqtt_connect, NULL, mqtt_subscribe, NULL, sizeof(mqtt_connect) - 1,
     sizeof(mqtt_subscribe) - 1},
};

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "idle-clients-bench: %s: %s\n", what, why);
    exit(1);
}

/* Peers ---------------------------------------------------------------------------------------- */

static int dial(const char *address)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in remote = {.sin_family = AF_INET};
    const char *colon = strrchr(address, ':');
    bool is_tcp = colon != NULL;
    int fd = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail("socket", strerror(errno));
    }
    int rc;
    if (is_tcp) {
        char host[64];
        (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
        remote.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
        (void)inet_pton(AF_INET, host, &remote.sin_addr);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        rc = connect(fd, (const struct sockaddr *)&remote, sizeof(remote));
    } else {
        (void)snprintf(local.sun_path, sizeof(local.sun_path), "%s", address);
        rc = connect(fd, (const struct sockaddr *)&local, sizeof(local));
    }
    if (rc != 0) {
        fail(address, strerror(errno));
    }
    return fd;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

/* answer NULL: any bytes will do. */
static void ask(int fd, const char *say, size_t len, const char *answer)
{
    char got[4096];
    size_t have = 0;
    if (write(fd, say, len) != (ssize_t)len) {
        fail("write", strerror(errno));
    }
    do {
        ssize_t n = read(fd, got + have, sizeof(got) - have);
        if (n <= 0 || (have += (size_t)n) == sizeof(got)) {
            fail("read", n < 0 ? strerror(errno) : "no answer");
        }
    } while (answer != NULL && !ends_with(got, have, answer));
}

static void peer_open(const struct kind *kind, const char *address, int64_t took[2])
{
    int64_t start_ns = now_ns();
    int fd = dial(address);
    ask(fd, kind->login, kind->login_len != 0 ? kind->login_len : strlen(kind->login),
        kind->logged_in);
    int64_t connected_ns = now_ns();
    ask(fd, kind->subscribe,
        kind->subscribe_len != 0 ? kind->subscribe_len : strlen(kind->subscribe), kind->subscribed);
    took[0] = connected_ns - start_ns;
    took[1] = now_ns() - connected_ns;
}

/* Ours ----------------------------------------------------------------------------------------- */

static void ours_open(const char *url, struct amb_conn **conn, int64_t took[2])
{
    struct amb_error error;
    struct amb_sub *sub;
    int64_t start_ns = now_ns();
    if (amb_connect(url, AMB_OPTIONS(.error = &error, .progress = AMB_PROGRESS_POLL), conn) !=
        AMB_OK) {
        fail("amb_connect", error.text);
    }
    int64_t connected_ns = now_ns();
    if (amb_subscribe(*conn, "idle", NULL, &sub) != AMB_OK) {
        error = amb_last_error(*conn);
        fail("amb_subscribe", error.text);
    }
    took[0] = connected_ns - start_ns;
    took[1] = now_ns() - connected_ns;
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median_ms(int64_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return count == 0 ? 0 : (double)values[count / 2] / 1e6;
}

static void poll_all(struct amb_conn *const *conns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)amb_poll(conns[i], AMB_NOWAIT);
    }
}

/* Until input ends. */
static void hold(struct amb_conn *const *conns, size_t count)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, count != 0 ? ROUND_MS : -1) <= 0) {
        poll_all(conns, count);
    }
}

int main(int argc, char **argv)
{
    const struct kind *kind = NULL;
    for (size_t i = 0; argc == 4 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        kind = strcmp(kinds[i].name, argv[1]) == 0 ? &kinds[i] : kind;
    }
    if (kind == NULL) {
        fprintf(stderr, "usage: idle-clients-bench ambroker|nats|redis|mqtt ADDRESS COUNT\n");
        return 2;
    }
    size_t count = strtoul(argv[3], NULL, 10);
    int64_t *connects = calloc(count, sizeof(*connects)), *subs = calloc(count, sizeof(*subs));
    struct amb_conn **conns = calloc(count, sizeof(struct amb_conn *));
    bool is_ours = kind->login == NULL;
    int64_t worst_ns = 0, polled_ns = now_ns();
    if (count == 0 || connects == NULL || subs == NULL || conns == NULL) {
        fail("COUNT", argv[3]);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t took[2];
        if (is_ours) {
            ours_open(argv[2], &conns[i], took);
        } else {
            peer_open(kind, argv[2], took);
        }
        connects[i] = took[0];
        subs[i] = took[1];
        worst_ns = took[0] + took[1] > worst_ns ? took[0] + took[1] : worst_ns;
        if (is_ours && now_ns() - polled_ns > ROUND_MS * INT64_C(1000000)) {
            poll_all(conns, i + 1);
            polled_ns = now_ns();
        }
    }
    printf("held %zu %.4f %.4f %.4f\n", count, median_ms(connects, count), median_ms(subs, count),
           (double)worst_ns / 1e6);
    (void)fflush(stdout);
    hold(conns, is_ours ? count : 0);
    _exit(0); /* They all end as clients do whose process is killed. */
}
