/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a group that says which messages it was given.
 *
 *     member URL TOPIC GROUP CREDIT [ack] [gpu]
 *             says "ready"; CREDIT: messages that it may hold; gpu: payloads stay where they lie
 *             "pace US": from here on it takes so long for each message; says "pace US"
 *             "tell": says "got COUNT SECONDS NUMBER...", of those since it was last asked; the
 *             seconds are those from the first to the last
 *
 * It leaves at the end of its input.
 *
 *     member URL TOPIC lease COUNT gpu
 *             publishes COUNT messages of 64 KiB that lie in GPU memory, as it comes
 *
 * Exit: 0.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NUMBERS_MAX 1000000u
#define LOOK_NS (5 * AMB_MS)
#define PAYLOAD (64u << 10)

static uint64_t numbers[NUMBERS_MAX];
static uint64_t count;
static double first_s, last_s;
static useconds_t pace_us;

static void must(const char *what, enum amb_status status, const struct amb_conn *conn)
{
    if (status != AMB_OK) {
        struct amb_error error = amb_last_error(conn);
        (void)fprintf(stderr, "member: %s: %s (%s)\n", what, amb_strerror(status), error.text);
        exit(1);
    }
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void tell(void)
{
    (void)printf("got %" PRIu64 " %.6f", count, count == 0 ? 0.0 : last_s - first_s);
    for (uint64_t i = 0; i < count; i++) {
        (void)printf(" %" PRIu64, numbers[i]);
    }
    (void)printf("\n");
    (void)fflush(stdout);
    count = 0;
}

/* False: its input has ended. */
static bool obey(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[64];
    while (poll(&in, 1, 0) > 0) {
        if (fgets(line, sizeof(line), stdin) == NULL) {
            return false;
        }
        if (sscanf(line, "pace %u", &pace_us) == 1) {
            (void)printf("pace %u\n", pace_us);
            (void)fflush(stdout);
        } else {
            tell();
        }
    }
    return true;
}

static void take(struct amb_msg *msg, bool acks)
{
    if (count == NUMBERS_MAX) {
        exit(2);
    }
    if (pace_us > 0) {
        (void)usleep(pace_us);
    }
    last_s = now_s();
    first_s = count == 0 ? last_s : first_s;
    numbers[count++] = amb_msg_seq(msg);
    if (acks) {
        must("ack", amb_msg_ack(msg), NULL);
    }
    amb_msg_release(msg);
}

/* COUNT messages in memory of GPU 0, a millisecond apart. */
static void publish(struct amb_conn *conn, const char *topic, uint64_t messages)
{
    struct amb_pub *pub;
    must("pub_open", amb_pub_open(conn, topic, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub), conn);
    for (uint64_t i = 0; i < messages; i++) {
        struct amb_lease *lease;
        must("lease", amb_lease(pub, PAYLOAD, 10 * AMB_SEC, &lease), conn);
        must("commit", amb_lease_commit(lease, NULL, NULL), conn);
        (void)usleep(1000);
    }
    must("flush", amb_pub_flush(pub, 0, 60 * AMB_SEC), conn);
    must("pub_close", amb_pub_close(pub, 10 * AMB_SEC), conn);
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 5; i < argc; i++) {
        if (strcmp(argv[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static void receive(struct amb_conn *conn, int argc, char **argv)
{
    struct amb_sub *sub;
    bool acks = has_word(argc, argv, "ack");
    must("subscribe",
         amb_subscribe(conn, argv[2],
                       AMB_SUB(.group = argv[3], .credit_msgs = strtoull(argv[4], NULL, 10),
                               .mem = has_word(argc, argv, "gpu") ? AMB_MEM_AS_SENT : AMB_MEM_HOST,
                               .ack = acks ? AMB_ACK_EXPLICIT : AMB_ACK_NONE,
                               .slow = AMB_SLOW_BLOCK, .slow_block_ns = 60 * AMB_SEC),
                       &sub),
         conn);
    (void)printf("ready\n");
    (void)fflush(stdout);
    unsigned taken = 0;
    while ((pace_us == 0 && ++taken % 64 != 0) || obey()) {
        struct amb_msg *msg;
        enum amb_status status = amb_next(sub, LOOK_NS, &msg);
        if (status == AMB_OK) {
            take(msg, acks);
        } else if (status == AMB_EAGAIN || status == AMB_ETIMEDOUT) {
            taken = 63; /* It has time to listen. */
        } else {
            must("next", status, conn);
        }
    }
    must("sub_close", amb_sub_close(sub, 10 * AMB_SEC), conn);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        return 64;
    }
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* poll sees all that is there. */
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(argv[1], AMB_OPTIONS(.name = "member", .error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "member: %s\n", error.text);
        return 1;
    }
    if (strcmp(argv[3], "lease") == 0) {
        publish(conn, argv[2], strtoull(argv[4], NULL, 10));
    } else {
        receive(conn, argc, argv);
    }
    must("close", amb_close(conn, 10 * AMB_SEC), NULL);
    return 0;
}
