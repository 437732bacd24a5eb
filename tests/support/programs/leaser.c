/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers and readers of messages whose every byte can be checked, of given sizes. Message n has
 * the (n mod k)-th of k sizes, and each of its words follows from n.
 *
 *     leaser lease URL TOPIC COUNT SIZES    publishes in place
 *     leaser plain URL TOPIC COUNT SIZES [warm] the same by amb_pub_send. warm: not before a
 * message to another topic has left in a slot leaser read  URL TOPIC COUNT SIZES [copy] leaser hold
 * URL TOPIC COUNT SIZES    takes COUNT leases, prints "holding", waits for a line, then commits
 * them
 *
 * lease and plain wait for a subscriber and print "published", the number of messages that left in
 * slots, and the seconds it took. read prints "ready" once it is subscribed, then "read", how many
 * came by which path ("mapped=10 ring=2"). hold prints "committed" and the status of the last
 * commit, and of a send after it; then it waits for the end of its input. Exit: 1 if a call fails,
 * 2 if a byte is wrong or a message missing.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZES_MAX 16
#define HELD_MAX 64

static struct {
    const char *topic;
    uint64_t count;
    size_t sizes[SIZES_MAX], size_count;
} the;

static struct amb_conn *conn;

static void check(enum amb_status status, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "leaser: %s: %s (%s)\n", what, amb_strerror(status),
                      amb_last_error(conn).text);
        exit(1);
    }
}

static double now_s(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void say(const char *text)
{
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

static size_t size_of(uint64_t n)
{
    return the.sizes[n % the.size_count];
}

static uint64_t word_of(uint64_t n, size_t i)
{
    return (n + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)i * UINT64_C(0x2545f4914f6cdd1d);
}

static void fill(void *bytes, size_t size, uint64_t n)
{
    uint64_t *words = bytes;
    for (size_t i = 0; i < size / 8; i++) {
        words[i] = word_of(n, i);
    }
    uint64_t last = word_of(n, size / 8);
    memcpy((uint8_t *)bytes + size / 8 * 8, &last, size % 8);
}

static bool is_right(const void *bytes, size_t size, uint64_t n)
{
    const uint64_t *words = bytes;
    for (size_t i = 0; i < size / 8; i++) {
        if (words[i] != word_of(n, i)) {
            return false;
        }
    }
    uint64_t last = word_of(n, size / 8);
    return memcmp((const uint8_t *)bytes + size / 8 * 8, &last, size % 8) == 0;
}

static struct amb_pub *open_pub(void)
{
    struct amb_pub *pub;
    check(amb_pub_open(conn, the.topic, NULL, &pub), "pub_open");
    return pub;
}

static struct amb_lease *take(struct amb_pub *pub, uint64_t n)
{
    struct amb_lease *lease;
    check(amb_lease(pub, size_of(n), AMB_FOREVER, &lease), "lease");
    fill(amb_lease_data(lease), size_of(n), n);
    return lease;
}

/* The first messages leave through the link while the broker makes a segment, however long that
 * takes it: nobody reads these. */
static void warm_up(uint8_t *bytes, size_t size)
{
    char topic[256];
    struct amb_pub *pub;
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    (void)snprintf(topic, sizeof(topic), "%s.warm", the.topic);
    check(amb_pub_open(conn, topic, NULL, &pub), "pub_open");
    double start = now_s();
    while (info.leased == 0) {
        if (now_s() - start > 60) {
            (void)fprintf(stderr, "leaser: no send took a slot in 60 s\n");
            exit(1);
        }
        check(amb_pub_send(pub, bytes, size, AMB_FOREVER), "send");
        check(amb_pub_stat(pub, &info), "stat");
    }
    check(amb_pub_close(pub, AMB_FOREVER), "pub_close");
}

static int publish(bool is_leased, bool is_warm)
{
    struct amb_pub *pub = open_pub();
    check(amb_pub_wait_subscribers(pub, 1, 60 * AMB_SEC), "wait_subscribers");
    size_t max = 0;
    for (size_t i = 0; i < the.size_count; i++) {
        max = the.sizes[i] > max ? the.sizes[i] : max;
    }
    uint8_t *bytes = is_leased ? NULL : calloc(1, max + 8);
    if (is_warm) {
        warm_up(bytes, max);
    }
    double start = now_s();
    for (uint64_t n = 0; n < the.count; n++) {
        if (is_leased) {
            check(amb_lease_commit(take(pub, n), NULL, NULL), "commit");
        } else {
            fill(bytes, size_of(n), n);
            check(amb_pub_send(pub, bytes, size_of(n), AMB_FOREVER), "send");
            memset(bytes, 0xee, size_of(n)); /* Ours again. */
        }
    }
    check(amb_pub_flush(pub, 0, AMB_FOREVER), "flush");
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    check(amb_pub_stat(pub, &info), "stat");
    (void)printf("published %" PRIu64 " %.3f\n", info.leased, now_s() - start);
    free(bytes);
    check(amb_close(conn, AMB_FOREVER), "close");
    return 0;
}

static int read_all(bool is_copied)
{
    struct amb_sub *sub;
    check(amb_subscribe(conn, the.topic,
                        AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = AMB_FOREVER,
                                .copy = is_copied, .credit_bytes = (uint64_t)256 << 20),
                        &sub),
          "subscribe");
    say("ready");
    struct {
        const char *path;
        uint64_t count;
    } paths[8] = {{NULL, 0}};
    int result = 0;
    for (uint64_t n = 0; n < the.count && result == 0; n++) {
        struct amb_msg *msg;
        check(amb_next(sub, AMB_FOREVER, &msg), "next");
        if (amb_msg_size(msg) != size_of(n) || amb_msg_lost(msg, NULL) != 0 ||
            !is_right(amb_msg_data(msg), size_of(n), n)) {
            (void)fprintf(stderr, "leaser: message %" PRIu64 ": %zu bytes, lost %" PRIu64 "\n", n,
                          amb_msg_size(msg), amb_msg_lost(msg, NULL));
            result = 2;
        }
        size_t p = 0;
        while (paths[p].path != NULL && strcmp(paths[p].path, amb_msg_path(msg)) != 0) {
            p++;
        }
        paths[p].path = amb_msg_path(msg);
        paths[p].count++;
        amb_msg_release(msg);
    }
    (void)printf("read");
    for (size_t p = 0; paths[p].path != NULL; p++) {
        (void)printf(" %s=%" PRIu64, paths[p].path, paths[p].count);
    }
    say("");
    check(amb_close(conn, AMB_SEC), "close");
    return result;
}

static int hold(void)
{
    struct amb_pub *pub = open_pub();
    struct amb_lease *held[HELD_MAX];
    for (uint64_t n = 0; n < the.count; n++) {
        held[n] = take(pub, n);
    }
    say("holding");
    char line[16];
    if (fgets(line, sizeof(line), stdin) == NULL) {
        return 1;
    }
    enum amb_status status = AMB_OK;
    for (uint64_t n = 0; n < the.count; n++) {
        fill(amb_lease_data(held[n]), size_of(n), n); /* However the session ended. */
        status = amb_lease_commit(held[n], NULL, NULL);
    }
    (void)printf("committed %d %d\n", (int)status, (int)amb_pub_flush(pub, 0, AMB_SEC));
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
    }
    (void)amb_close(conn, AMB_SEC);
    return 0;
}

static void read_sizes(char *list)
{
    char *rest;
    for (char *one = strtok_r(list, ",", &rest); one != NULL && the.size_count < SIZES_MAX;
         one = strtok_r(NULL, ",", &rest)) {
        the.sizes[the.size_count++] = strtoul(one, NULL, 10);
    }
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        (void)fprintf(stderr,
                      "usage: leaser lease|plain|read|hold URL TOPIC COUNT SIZES [copy|warm]\n");
        return 64;
    }
    the.topic = argv[3];
    the.count = strtoul(argv[4], NULL, 10);
    read_sizes(argv[5]);
    struct amb_error error = {0};
    if (amb_connect(argv[2],
                    AMB_OPTIONS(.error = &error, .reconnect_attempts = AMB_NONE,
                                .timeout_ns = 60 * AMB_SEC),
                    &conn) != AMB_OK) {
        (void)fprintf(stderr, "leaser: connect: %s\n", error.text);
        return 1;
    }
    if (strcmp(argv[1], "read") == 0) {
        return read_all(argc > 6);
    }
    if (strcmp(argv[1], "hold") == 0 && the.count <= HELD_MAX) {
        return hold();
    }
    return publish(strcmp(argv[1], "lease") == 0, argc > 6);
}
