/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publisher and readers of leased messages whose every byte can be checked.
 *
 *     audience URL TOPIC COUNT MAX lease
 *             writes COUNT messages of up to MAX bytes in place, every third with a key
 *             says "published COUNT"
 *     audience URL TOPIC COUNT MAX read [copy]
 *             says "ready", then takes and checks COUNT messages
 *             says "held COUNT WRONG PATH...": how many came wrong, and each way that they came
 *     audience URL TOPIC COUNT MAX drain [copy]
 *             says "ready", then keeps every tenth message while ten others come and go
 *             says "drained COUNT WRONG"
 *
 * The first two then wait for a line of input: readers check once more what they hold, say "held"
 * again, and give it back. Exit: 0.
 */
#include "tests/support/programs/checked.h"

#include <amb/amb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 4096
#define ID 77u
#define WAIT_NS (60 * AMB_SEC)

static void must(const char *what, enum amb_status status, const struct amb_conn *conn)
{
    if (status != AMB_OK) {
        struct amb_error error = amb_last_error(conn);
        (void)fprintf(stderr, "audience: %s: %s (%s)\n", what, amb_strerror(status), error.text);
        exit(1);
    }
}

static void await_line(void)
{
    char line[16];
    (void)fflush(stdout);
    if (fgets(line, sizeof(line), stdin) == NULL) {
        return; /* The end will do as well. */
    }
}

/* Any size from 16 bytes, mostly large. */
static size_t size_of(uint64_t n, size_t max)
{
    return n % 5 == 0 ? 16 + n % 1000 : max - (n * 7919) % (max / 2);
}

static void publish(struct amb_conn *conn, const char *topic, uint64_t count, size_t max)
{
    struct amb_pub *pub;
    must("pub_open", amb_pub_open(conn, topic, NULL, &pub), conn);
    for (uint64_t n = 1; n <= count; n++) {
        struct amb_lease *lease;
        size_t size = size_of(n, max);
        must("lease", amb_lease(pub, size, WAIT_NS, &lease), conn);
        checked_fill(amb_lease_data(lease), size, ID, n);
        must("commit",
             amb_lease_commit(lease, n % 3 == 0 ? AMB_WITH(amb_out, .key = "third") : NULL, NULL),
             conn);
    }
    must("flush", amb_pub_flush(pub, 0, WAIT_NS), conn);
    (void)printf("published %llu\n", (unsigned long long)count);
    await_line();
    must("pub_close", amb_pub_close(pub, WAIT_NS), conn);
}

static bool is_right(const struct amb_msg *msg, uint64_t n, size_t max, uint8_t *scratch)
{
    size_t size = size_of(n, max);
    const char *key = amb_msg_key(msg);
    checked_fill(scratch, size, ID, n);
    return amb_msg_size(msg) == size && memcmp(amb_msg_data(msg), scratch, size) == 0 &&
           (n % 3 == 0 ? key != NULL && strcmp(key, "third") == 0 : key == NULL) &&
           amb_msg_lost(msg, NULL) == 0;
}

static void say_held(struct amb_msg *const *msgs, uint64_t count, size_t max, uint8_t *scratch)
{
    static const char *const paths[] = {"mapped", "ring", "tcp", "ucx"};
    uint64_t wrong = 0, by[4] = {0};
    for (uint64_t i = 0; i < count; i++) {
        wrong += !is_right(msgs[i], i + 1, max, scratch);
        for (unsigned p = 0; p < 4; p++) {
            by[p] += strcmp(amb_msg_path(msgs[i]), paths[p]) == 0;
        }
    }
    (void)printf("held %llu %llu", (unsigned long long)count, (unsigned long long)wrong);
    for (unsigned p = 0; p < 4; p++) {
        (void)printf(" %s=%llu", paths[p], (unsigned long long)by[p]);
    }
    (void)printf("\n");
    await_line();
}

static void hold(struct amb_sub *sub, uint64_t count, size_t max, uint8_t *scratch)
{
    static struct amb_msg *msgs[COUNT_MAX];
    for (uint64_t i = 0; i < count; i++) {
        must("next", amb_next(sub, WAIT_NS, &msgs[i]), NULL);
    }
    say_held(msgs, count, max, scratch);
    say_held(msgs, count, max, scratch);
    for (uint64_t i = count; i-- > 0;) { /* out of order */
        amb_msg_release(msgs[i]);
    }
}

static void drain(struct amb_sub *sub, uint64_t count, size_t max, uint8_t *scratch)
{
    struct amb_msg *msg, *kept = NULL;
    uint64_t wrong = 0;
    for (uint64_t n = 1; n <= count; n++) {
        must("next", amb_next(sub, WAIT_NS, &msg), NULL);
        wrong += !is_right(msg, n, max, scratch);
        if (n % 10 == 0) {
            wrong += kept != NULL && !is_right(kept, n - 10, max, scratch);
            amb_msg_release(kept);
            kept = msg;
        } else {
            amb_msg_release(msg);
        }
    }
    amb_msg_release(kept);
    (void)printf("drained %llu %llu\n", (unsigned long long)count, (unsigned long long)wrong);
}

static void receive(struct amb_conn *conn, const char *topic, uint64_t count, size_t max,
                    bool drains, bool copy)
{
    struct amb_sub *sub;
    uint8_t *scratch = malloc(max + 8);
    must("memory", scratch == NULL ? AMB_ENOMEM : AMB_OK, conn);
    must("subscribe",
         amb_subscribe(conn, topic,
                       AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = WAIT_NS, .copy = copy,
                               .credit_bytes = UINT64_C(1) << 40),
                       &sub),
         conn);
    (void)printf("ready\n");
    (void)fflush(stdout);
    (drains ? drain : hold)(sub, count, max, scratch);
    must("sub_close", amb_sub_close(sub, WAIT_NS), conn);
    free(scratch);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        return 64;
    }
    uint64_t count = strtoull(argv[3], NULL, 10);
    size_t max = strtoul(argv[4], NULL, 10);
    struct amb_error error = {0};
    struct amb_conn *conn;
    bool holds = strcmp(argv[5], "read") == 0;
    if ((holds && count > COUNT_MAX) || max < 4096 ||
        amb_connect(
            argv[1],
            AMB_OPTIONS(.name = "audience", .error = &error, .reconnect_attempts = AMB_NONE),
            &conn) != AMB_OK) {
        (void)fprintf(stderr, "audience: %s\n", error.text);
        return 1;
    }
    if (strcmp(argv[5], "lease") == 0) {
        publish(conn, argv[2], count, max);
    } else {
        receive(conn, argv[2], count, max, strcmp(argv[5], "drain") == 0, argc > 6);
    }
    must("close", amb_close(conn, WAIT_NS), NULL);
    return 0;
}
