/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lazy subscriber and its publisher: every byte that is asked for is checked (checked.h).
 *
 *     lazy URL PUBLISHER_URL TOPIC COUNT SIZES WISH...
 *
 * SIZES: "0,100,70000", in turn. WISH is one or more of:
 *
 *     on, pin, headers   the kind
 *     acked              each message is given back once and must come again
 *     grouped            a member of a group
 *     kept               from the first message that the topic keeps
 *     filtered           every second message passes
 *     late               nothing is asked for before all headers have come
 *     small              credit for 1 MiB
 *
 * Prints "read", how many messages came, were fetched, were stale, how many had been
 * lost, and the seconds it took. Exit: 1 if a call fails, 2 if a byte is wrong.
 */
#include "tests/support/programs/checked.h"

#include <amb/amb.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZES_MAX 16
#define ID 7u

static struct {
    const char *publisher_url, *topic;
    uint64_t count;
    size_t sizes[SIZES_MAX], size_count, largest;
    enum amb_lazy kind;
    bool is_acked, is_grouped, is_kept, is_filtered, is_late, is_small;
} the;

static uint64_t fetched, stale, lost;
static uint8_t *expected, *got;

static void check(struct amb_conn *conn, enum amb_status status, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "lazy: %s: %s (%s)\n", what, amb_strerror(status),
                      amb_last_error(conn).text);
        exit(1);
    }
}

static void wrong(uint64_t n, const char *what)
{
    (void)fprintf(stderr, "lazy: message %" PRIu64 ": %s\n", n, what);
    exit(2);
}

static size_t size_of(uint64_t n)
{
    return the.sizes[n % the.size_count];
}

static void *publish(void *arg)
{
    struct amb_conn *conn;
    struct amb_pub *pub;
    uint8_t *bytes = malloc(the.largest + 1);
    (void)arg;
    if (bytes == NULL) {
        exit(1);
    }
    check(NULL, amb_connect(the.publisher_url, NULL, &conn), "connect");
    check(conn, amb_pub_open(conn, the.topic, NULL, &pub), "open");
    if (!the.is_kept) {
        check(conn, amb_pub_wait_subscribers(pub, 1, 20 * AMB_SEC), "wait");
    }
    for (uint64_t n = 0; n < the.count; n++) {
        char text[24];
        int len = snprintf(text, sizeof(text), "%" PRIu64, n);
        const struct amb_prop props[] = {
            {.name = "n", .value = text, .len = (size_t)len},
            {.name = "odd", .value = n % 2 != 0 ? "yes" : "no", .len = n % 2 != 0 ? 3 : 2}};
        checked_fill(bytes, size_of(n), ID, n);
        const struct amb_out *out =
            AMB_OUT(.data = bytes, .len = size_of(n), .props = props, .prop_count = 2);
        check(conn, amb_pub_post(pub, out, 60 * AMB_SEC, NULL), "publish");
        check(conn, amb_pub_flush(pub, 0, 60 * AMB_SEC), "flush"); /* The bytes are ours again. */
    }
    check(conn, amb_close(conn, 60 * AMB_SEC), "close");
    free(bytes);
    return NULL;
}

/* A range of a message; false: it is stale. */
static bool read_range(struct amb_conn *conn, struct amb_msg *msg, uint64_t n, uint64_t offset,
                       size_t len)
{
    memset(got, 0xee, len);
    enum amb_status status = amb_msg_read(msg, offset, got, len, 30 * AMB_SEC);
    if (status == AMB_ESTALE && the.kind == AMB_LAZY_ON && !the.is_acked && !the.is_grouped) {
        return false;
    }
    check(conn, status, "read");
    if (memcmp(got, expected + offset, len) != 0) {
        wrong(n, "a range has other bytes");
    }
    return true;
}

static bool look(struct amb_conn *conn, struct amb_msg *msg, uint64_t n)
{
    size_t size = amb_msg_size(msg);
    checked_fill(expected, size, ID, n);
    if (amb_msg_read(msg, 1, got, size, AMB_SEC) != AMB_EINVAL) {
        wrong(n, "has bytes behind its end");
    }
    if (!read_range(conn, msg, n, 0, size < 100 ? size : 100) ||
        !read_range(conn, msg, n, size / 3, size / 2 + size % 2) ||
        !read_range(conn, msg, n, size - (size != 0), size != 0)) {
        return false;
    }
    if (n % 3 != 0) {
        return true;
    }
    enum amb_status status = amb_msg_fetch(msg, 30 * AMB_SEC);
    if (status == AMB_ESTALE && the.kind == AMB_LAZY_ON) {
        return false;
    }
    check(conn, status, "fetch");
    fetched++;
    if (memcmp(amb_msg_data(msg), expected, size) != 0 || (uintptr_t)amb_msg_data(msg) % 16 != 0) {
        wrong(n, "was fetched with other bytes");
    }
    return read_range(conn, msg, n, size / 4, size / 4);
}

static void take(struct amb_conn *conn, struct amb_msg *msg)
{
    const char *text = amb_msg_prop(msg, "n", NULL);
    uint64_t n = text != NULL ? strtoull(text, NULL, 10) : UINT64_MAX;
    if (n >= the.count || amb_msg_size(msg) != size_of(n)) {
        wrong(n, "has another size");
    }
    if ((amb_msg_data(msg) != NULL) != (size_of(n) == 0) ||
        strcmp(amb_msg_path(msg), size_of(n) != 0 ? "lazy" : amb_msg_path(msg)) != 0) {
        wrong(n, "came with its payload");
    }
    if (the.kind == AMB_LAZY_HEADERS) {
        if (size_of(n) != 0 && (amb_msg_fetch(msg, AMB_SEC) != AMB_ESTATE ||
                                amb_msg_read(msg, 0, got, 1, AMB_SEC) != AMB_ESTATE)) {
            wrong(n, "can be asked for");
        }
    } else if (!look(conn, msg, n)) {
        stale++;
    }
    amb_msg_release(msg);
}

static void wish(const char *word)
{
    bool *flag = strcmp(word, "acked") == 0      ? &the.is_acked
                 : strcmp(word, "grouped") == 0  ? &the.is_grouped
                 : strcmp(word, "kept") == 0     ? &the.is_kept
                 : strcmp(word, "filtered") == 0 ? &the.is_filtered
                 : strcmp(word, "late") == 0     ? &the.is_late
                 : strcmp(word, "small") == 0    ? &the.is_small
                                                 : NULL;
    if (flag != NULL) {
        *flag = true;
    } else {
        the.kind = strcmp(word, "pin") == 0       ? AMB_LAZY_PIN
                   : strcmp(word, "headers") == 0 ? AMB_LAZY_HEADERS
                                                  : AMB_LAZY_ON;
    }
}

static void read_arguments(int argc, char **argv)
{
    if (argc < 7) {
        (void)fprintf(stderr, "lazy URL PUBLISHER_URL TOPIC COUNT SIZES WISH...\n");
        exit(1);
    }
    the.publisher_url = argv[2];
    the.topic = argv[3];
    the.count = strtoull(argv[4], NULL, 10);
    for (char *at = argv[5]; the.size_count < SIZES_MAX;) {
        size_t size = strtoull(at, &at, 10);
        the.sizes[the.size_count++] = size;
        the.largest = size > the.largest ? size : the.largest;
        if (*at++ != ',') {
            break;
        }
    }
    for (int i = 6; i < argc; i++) {
        wish(argv[i]);
    }
    expected = malloc(the.largest + 1);
    got = malloc(the.largest + 1);
    if (expected == NULL || got == NULL) {
        exit(1);
    }
}

static struct amb_sub *subscribe(struct amb_conn *conn)
{
    struct amb_sub *sub;
    const struct amb_sub_options *options =
        AMB_SUB(.lazy = the.kind, .ack = the.is_acked ? AMB_ACK_EXPLICIT : AMB_ACK_NONE,
                .group = the.is_grouped ? "readers" : NULL,
                .filter = the.is_filtered ? "odd = 'yes'" : NULL,
                .start = the.is_kept ? AMB_START_FIRST : AMB_START_NEW, .slow = AMB_SLOW_BLOCK,
                .slow_block_ns = 60 * AMB_SEC,
                .credit_bytes = the.is_small ? (uint64_t)1 << 20 : 0);
    check(conn, amb_subscribe(conn, the.topic, options, &sub), "subscribe");
    return sub;
}

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    struct amb_conn *conn;
    struct timespec began, ended;
    pthread_t publisher;
    check(NULL, amb_connect(argv[1], NULL, &conn), "connect");
    if (the.is_kept) {
        (void)publish(NULL);
    }
    struct amb_sub *sub = subscribe(conn);
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    if (!the.is_kept && pthread_create(&publisher, NULL, publish, NULL) != 0) {
        exit(1);
    }
    uint64_t wanted = the.is_filtered ? the.count / 2 : the.count, came = 0, held = 0;
    struct amb_msg **late = calloc(wanted + 1, sizeof(struct amb_msg *));
    while (late != NULL && came + lost < wanted) {
        struct amb_msg *msg;
        check(conn, amb_next(sub, 60 * AMB_SEC, &msg), "next");
        lost += amb_msg_lost(msg, NULL);
        if (the.is_acked && amb_msg_deliveries(msg) == 1) {
            check(conn, amb_msg_nak(msg, 0), "nak");
            amb_msg_release(msg);
            continue;
        }
        came++;
        if (the.is_acked) {
            check(conn, amb_msg_ack(msg), "ack");
        }
        if (the.is_late) {
            late[held++] = msg;
        } else {
            take(conn, msg);
        }
    }
    for (uint64_t i = 0; i < held; i++) {
        take(conn, late[i]);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    if (!the.is_kept) {
        (void)pthread_join(publisher, NULL);
    }
    (void)printf(
        "read %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.2f\n", came, fetched, stale, lost,
        (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) * 1e-9);
    free(late);
    free(expected);
    free(got);
    check(NULL, amb_close(conn, 20 * AMB_SEC), "close");
    return 0;
}
