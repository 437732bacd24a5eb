/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client that must notice nothing. It publishes checked messages at a modest rate, receives
 * them again through a subscription that blocks rather than loses, and watches the messages of
 * others.
 *
 *     checker PUB_URL SUB_URL NAME [--rate N] [--watch PATTERN] [--max BYTES] [--last SECONDS]
 *
 * TERM: publishes no more, waits until everything published has been received, for at most the
 * seconds of --last (10), and prints one line of JSON. Exit 0: every message arrived, once, in
 * order, each byte right; 1 else.
 */
#include "tests/support/programs/checked.h"
#include "tools/common/hdr.h"

#include <amb/amb.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMES 65536u
#define SUBSCRIPTIONS 256
#define PATIENCE_NS (60 * AMB_SEC) /* of opening things, where cores are few */

static struct {
    const char *pub_url, *sub_url, *name, *watch;
    char topic[128];
    uint64_t id;
    long rate;
    size_t max;
    int64_t last_ns; /* to receive what is on its way, once nothing more is published */
    atomic_bool is_over, has_published; /* stop; nothing more will be published */
    atomic_uint_fast64_t published, failures, wrong;
    uint64_t received, watched, watched_unknown;
    struct amb_hdr late; /* time between publishing and receiving */
    atomic_int_fast64_t sent_ns[TIMES];
} the = {.watch = NULL, .rate = 500, .max = CHECKED_SIZE_MAX, .last_ns = 10 * AMB_SEC};

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void fail(const char *what, enum amb_status status, const struct amb_conn *conn)
{
    struct amb_error error = amb_last_error(conn);
    (void)fprintf(stderr, "%s: %s: %s (%s)\n", the.name, what, amb_strerror(status), error.text);
    atomic_fetch_add(&the.failures, 1);
    atomic_store(&the.is_over, true);
}

static struct amb_conn *connect_to(const char *url, const char *suffix)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s-%s", the.name, suffix);
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(url,
                    AMB_OPTIONS(.name = name, .error = &error, .reconnect_attempts = AMB_NONE,
                                .connect_timeout_ns = PATIENCE_NS, .timeout_ns = PATIENCE_NS),
                    &conn) != AMB_OK) {
        (void)fprintf(stderr, "%s: connect %s: %s\n", name, url, error.text);
        exit(1);
    }
    return conn;
}

static void *publish(void *arg)
{
    struct amb_conn *conn = arg;
    struct amb_pub *pub;
    enum amb_status status = amb_pub_open(conn, the.topic, NULL, &pub);
    uint8_t *bytes = malloc(CHECKED_SIZE_MAX + 8);
    if (status != AMB_OK || bytes == NULL) {
        fail("pub_open", status, conn);
    }
    for (uint64_t n = 1; !atomic_load(&the.is_over); n++) {
        size_t size = checked_size(the.id, n, the.max);
        checked_fill(bytes, size, the.id, n);
        atomic_store(&the.sent_ns[n % TIMES], now_ns());
        status = amb_pub_send(pub, bytes, size, 10 * AMB_SEC);
        if (status != AMB_OK) {
            fail("pub_send", status, conn);
            break;
        }
        atomic_store(&the.published, n);
        struct timespec pause = {.tv_nsec = 1000000000 / the.rate};
        (void)nanosleep(&pause, NULL);
    }
    status = amb_pub_close(pub, the.last_ns);
    if (status != AMB_OK) {
        fail("pub_close", status, conn);
    }
    free(bytes);
    atomic_store(&the.has_published, true);
    return NULL;
}

static void take_own(struct checked_reader *reader, const struct amb_msg *msg)
{
    uint64_t lost = amb_msg_lost(msg, NULL);
    enum checked_result result = checked_next(reader, amb_msg_data(msg), amb_msg_size(msg), 0);
    the.received++;
    amb_hdr_record(&the.late, now_ns() - atomic_load(&the.sent_ns[the.received % TIMES]));
    if (lost != 0 || result != CHECKED_OK || reader->n != the.received) {
        (void)fprintf(stderr,
                      "%s: message %" PRIu64 " (seq %" PRIu64 "): result %d, lost %" PRIu64
                      ", n %" PRIu64 ", %zu bytes by %s\n",
                      the.name, the.received, amb_msg_seq(msg), (int)result, lost, reader->n,
                      amb_msg_size(msg), amb_msg_path(msg));
        atomic_fetch_add(&the.wrong, 1);
        the.received = reader->n;
    }
}

static void *receive(void *arg)
{
    struct amb_sub *sub = arg;
    struct checked_reader reader = {.id = the.id, .is_synced = true, .max = the.max};
    int64_t deadline_ns = INT64_MAX;
    while (!atomic_load(&the.has_published) || the.received < atomic_load(&the.published)) {
        if (atomic_load(&the.has_published) && deadline_ns == INT64_MAX) {
            deadline_ns = now_ns() + the.last_ns;
        }
        struct amb_msg *msg;
        enum amb_status status = amb_next(sub, 100 * AMB_MS, &msg);
        if (status == AMB_OK) {
            take_own(&reader, msg);
            amb_msg_release(msg);
        } else if (status != AMB_ETIMEDOUT || now_ns() > deadline_ns) {
            (void)fprintf(stderr, "%s: next: %s\n", the.name, amb_strerror(status));
            atomic_fetch_add(&the.failures, 1);
            atomic_store(&the.is_over, true);
            break;
        }
    }
    return NULL;
}

/* Readers of what victims publish, one a topic. */
static struct {
    char topic[64];
    struct checked_reader reader;
} topics[SUBSCRIPTIONS];

static struct checked_reader *reader_of(const char *topic)
{
    for (size_t i = 0; i < SUBSCRIPTIONS; i++) {
        if (topics[i].topic[0] == '\0') {
            (void)snprintf(topics[i].topic, sizeof(topics[i].topic), "%s", topic);
            topics[i].reader.max = CHECKED_SIZE_MAX;
        }
        if (strcmp(topics[i].topic, topic) == 0) {
            return &topics[i].reader;
        }
    }
    return NULL;
}

static void *watch(void *arg)
{
    struct amb_sub *sub = arg;
    while (!atomic_load(&the.is_over)) {
        struct amb_msg *msg;
        enum amb_status status = amb_next(sub, 100 * AMB_MS, &msg);
        if (status == AMB_ETIMEDOUT) {
            continue;
        }
        if (status != AMB_OK) {
            (void)fprintf(stderr, "%s: watch: %s\n", the.name, amb_strerror(status));
            atomic_fetch_add(&the.failures, 1);
            atomic_store(&the.is_over, true);
            break;
        }
        struct checked_reader *reader = reader_of(amb_msg_topic(msg));
        enum checked_result result = reader == NULL
                                         ? CHECKED_UNKNOWN
                                         : checked_next(reader, amb_msg_data(msg),
                                                        amb_msg_size(msg), amb_msg_lost(msg, NULL));
        the.watched++;
        the.watched_unknown += result == CHECKED_UNKNOWN;
        if (result == CHECKED_WRONG || result == CHECKED_GAP) {
            (void)fprintf(stderr, "%s: %s seq %" PRIu64 ": result %d, n %" PRIu64 " by %s\n",
                          the.name, amb_msg_topic(msg), amb_msg_seq(msg), (int)result, reader->n,
                          amb_msg_path(msg));
            atomic_fetch_add(&the.wrong, 1);
        }
        amb_msg_release(msg);
    }
    return NULL;
}

static void on_term(int number)
{
    (void)number;
    atomic_store(&the.is_over, true);
}

static void read_arguments(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: checker PUB_URL SUB_URL NAME [--rate N] [--watch PATTERN] "
                              "[--max BYTES] [--last SECONDS]\n");
        exit(64);
    }
    the.pub_url = argv[1];
    the.sub_url = argv[2];
    the.name = argv[3];
    for (int i = 4; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rate") == 0) {
            the.rate = strtol(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--watch") == 0) {
            the.watch = argv[i + 1];
        } else if (strcmp(argv[i], "--max") == 0) {
            the.max = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--last") == 0) {
            the.last_ns = strtol(argv[i + 1], NULL, 10) * AMB_SEC;
        }
    }
    (void)snprintf(the.topic, sizeof(the.topic), "check.%s", the.name);
    the.id = (uint64_t)now_ns();
}

static void check(enum amb_status status, const char *what, const struct amb_conn *conn)
{
    if (status != AMB_OK) {
        fail(what, status, conn);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    struct sigaction action = {.sa_handler = on_term};
    (void)sigaction(SIGTERM, &action, NULL);
    struct amb_conn *pub_conn = connect_to(the.pub_url, "pub");
    struct amb_conn *sub_conn = connect_to(the.sub_url, "sub");
    struct amb_sub *own, *others = NULL;
    check(amb_subscribe(sub_conn, the.topic,
                        AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = AMB_FOREVER), &own),
          "subscribe", sub_conn);
    if (the.watch != NULL) {
        check(amb_subscribe(sub_conn, the.watch, AMB_SUB(.slow = AMB_SLOW_DROP_OLDEST), &others),
              "subscribe", sub_conn);
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    pthread_t threads[3];
    size_t count = 0;
    (void)pthread_create(&threads[count++], NULL, publish, pub_conn);
    (void)pthread_create(&threads[count++], NULL, receive, own);
    if (others != NULL) {
        (void)pthread_create(&threads[count++], NULL, watch, others);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    bool is_good = atomic_load(&the.failures) == 0 && atomic_load(&the.wrong) == 0 &&
                   the.received == atomic_load(&the.published);
    check(amb_close(pub_conn, 5 * AMB_SEC), "close", NULL);
    check(amb_close(sub_conn, 5 * AMB_SEC), "close", NULL);
    (void)printf(
        "{\"published\": %" PRIuFAST64 ", \"received\": %" PRIu64 ", \"failures\": %" PRIuFAST64
        ", \"wrong\": %" PRIuFAST64 ", \"late_ms\": %" PRId64
        ", \"late_p99_ms\": %.3f, \"late_p999_ms\": %.3f, \"watched\": %" PRIu64
        ", \"watched_unknown\": %" PRIu64 "}\n",
        atomic_load(&the.published), the.received, atomic_load(&the.failures),
        atomic_load(&the.wrong), the.late.max / 1000000,
        (double)amb_hdr_percentile(&the.late, 0.99) / 1e6,
        (double)amb_hdr_percentile(&the.late, 0.999) / 1e6, the.watched, the.watched_unknown);
    return is_good ? 0 : 1;
}
