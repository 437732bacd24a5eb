/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the delivery test: they do, and write down what they do and see; others judge.
 *
 *     test-load pub URL LOG ID MESSAGES [MAX_SIZE [delivered]]
 *     test-load sub URL LOG GROUPS MESSAGES [POLICY [late]]
 *
 * pub: MESSAGES messages to random topics of all, from 0 to MAX_SIZE bytes. Prints "done" when all
 * are settled; with "delivered" that is when all have been delivered. sub: reads the groups whose
 * bits are set; prints "ready", and after TERM goes on until nothing has come for a second. late:
 * it is not there from the first message on. POLICY: block (default), drop-oldest; ack, group,
 * cumulative. ack and group acknowledge each message, one in twenty after it has come twice; group
 * does so as a member of one. cumulative acknowledges one in eight, and the last one when nothing
 * more comes.
 */
#include "tests/delivery/record.h"

#include <amb/amb.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SETTLES_MAX 4u /* records of one call to note, at most so many for each message */
#define QUIET_NS AMB_SEC
/* Not yet settled, of a publisher that waits for delivery. The broker keeps 65,536 such batches for
 * a worker, those lent to another one twice, and refuses others. */
#define UNDELIVERED_MAX 4096u
#define AT_WORK_NS (600 * AMB_SEC) /* the slowest is behind for less, sanitizers and all */
#define PATIENCE_NS (60 * AMB_SEC) /* a broker may be away that long where cores are few */

static struct delivery_head *log_head;
static volatile sig_atomic_t is_over;

static struct amb_conn *conn;

static void fail(const char *what, enum amb_status status)
{
    struct amb_error error = amb_last_error(conn);
    (void)fprintf(stderr, "test-load: %s: %s; %s\n", what, amb_strerror(status), error.text);
    exit(1);
}

static void check(const char *what, enum amb_status status)
{
    if (status != AMB_OK) {
        fail(what, status);
    }
}

/* Of a session that was lost meanwhile: nobody hears it. */
static void answered(const char *what, enum amb_status status)
{
    check(what, status == AMB_ESTALE ? AMB_OK : status);
}

/* A fate that nobody knows, and a batch that an ending broker refused, were noted when they were
 * settled; they are the checker's matter. */
static void close_is(const char *what, enum amb_status status)
{
    check(what, status == AMB_EUNKNOWN || status == AMB_ECLOSED ? AMB_OK : status);
}

/* The library's words are worth having. */
static void on_event(struct amb_conn *of, const struct amb_event *event, void *arg)
{
    (void)of;
    (void)arg;
    (void)fprintf(stderr, "test-load: event %d: %s\n", (int)event->type, event->text);
}

/* ---- the log ---- */

static void log_open(const char *path, const struct delivery_head *head, uint64_t max)
{
    size_t size = sizeof(struct delivery_head) + max * sizeof(struct delivery_record);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void *base = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (base == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    (void)close(fd);
    log_head = base;
    log_head->id = head->id;
    log_head->groups = head->groups;
    log_head->mode = head->mode;
    log_head->is_late = head->is_late;
    log_head->max = max;
    log_head->magic = DELIVERY_MAGIC;
}

static void note(const struct delivery_record *record)
{
    uint64_t at = atomic_load_explicit(&log_head->count, memory_order_relaxed);
    if (at == log_head->max) {
        (void)fprintf(stderr, "test-load: the log is full\n");
        exit(1);
    }
    ((struct delivery_record *)(log_head + 1))[at] = *record;
    atomic_store_explicit(&log_head->count, at + 1, memory_order_release);
}

/* ---- payloads ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t size_of(uint64_t random, uint32_t max)
{
    uint32_t most = random % 100000 == 0 ? max
                    : random % 1000 == 0 ? 256u << 10
                    : random % 50 == 0   ? 16u << 10
                                         : 512;
    most = most < max ? most : max;
    return random % 61 == 0 ? 0 : (uint32_t)((random >> 20) % (most + 1));
}

/* Words behind the stamp: no two messages have the same, nor two places of one. */
static uint64_t word_at(const struct delivery_stamp *stamp, uint64_t i)
{
    return (stamp->publisher ^ stamp->number * UINT64_C(0x9e3779b97f4a7c15)) +
           (stamp->topic + i) * UINT64_C(0xd1342543de82ef95);
}

static void fill(uint8_t *to, const struct delivery_stamp *stamp)
{
    if (stamp->size < DELIVERY_STAMP) {
        memset(to, (int)stamp->size, stamp->size);
        return;
    }
    memcpy(to, stamp, sizeof(*stamp));
    uint64_t words = (stamp->size - DELIVERY_STAMP) / 8, word;
    for (uint64_t i = 0; i < words; i++) {
        word = word_at(stamp, i);
        memcpy(to + DELIVERY_STAMP + 8 * i, &word, 8);
    }
    word = word_at(stamp, words);
    memcpy(to + DELIVERY_STAMP + 8 * words, &word, (stamp->size - DELIVERY_STAMP) % 8);
}

static bool is_right(const uint8_t *bytes, uint32_t size, struct delivery_stamp *stamp)
{
    if (size < DELIVERY_STAMP) {
        *stamp = (struct delivery_stamp){.size = size};
        for (uint32_t i = 0; i < size; i++) {
            if (bytes[i] != size) {
                return false;
            }
        }
        return true;
    }
    memcpy(stamp, bytes, sizeof(*stamp));
    uint64_t words = (size - DELIVERY_STAMP) / 8, differs = stamp->size ^ size, word;
    for (uint64_t i = 0; i < words; i++) {
        memcpy(&word, bytes + DELIVERY_STAMP + 8 * i, 8);
        differs |= word ^ word_at(stamp, i);
    }
    word = word_at(stamp, words);
    return differs == 0 &&
           memcmp(bytes + DELIVERY_STAMP + 8 * words, &word, (size - DELIVERY_STAMP) % 8) == 0;
}

/* ---- publisher ---- */

struct stream {
    struct amb_pub *pub;
    uint32_t topic;
    uint64_t number;
};

static uint64_t unsettled;

static void on_settled(struct amb_pub *pub, const struct amb_settled *settled, void *arg)
{
    (void)pub;
    const struct stream *stream = arg;
    uint32_t status = (uint32_t)settled->status;
    unsettled -= settled->last - settled->first + 1;
    note(&(struct delivery_record){.kind = DELIVERY_SETTLED,
                                   .publisher = log_head->id,
                                   .topic = stream->topic,
                                   .number = settled->first,
                                   .seq = settled->last,
                                   .size = settled->status == AMB_EUNKNOWN ? DELIVERY_UNKNOWN
                                                                           : status});
    if (log_head->mode == DELIVERY_CONFIRMED && settled->status == AMB_OK) {
        note(&(struct delivery_record){.kind = DELIVERY_TOLD,
                                       .publisher = log_head->id,
                                       .topic = stream->topic,
                                       .number = settled->delivered,
                                       .seq = settled->dropped,
                                       .lost = settled->matched});
    }
}

static void publish_lease(struct stream *stream, const struct delivery_stamp *stamp)
{
    struct amb_lease *lease;
    struct amb_prop prop = {.name = DELIVERY_PROPERTY, .value = stamp, .len = sizeof(*stamp)};
    const bool is_tiny = stamp->size < DELIVERY_STAMP && log_head->mode == DELIVERY_CONFIRMED;
    check("lease", amb_lease(stream->pub, stamp->size, AMB_FOREVER, &lease));
    fill(amb_lease_data(lease), stamp);
    check("commit",
          amb_lease_commit(lease, is_tiny ? AMB_OUT(.props = &prop, .prop_count = 1) : NULL, NULL));
}

static void poll_once(int64_t timeout_ns)
{
    enum amb_status status = amb_poll(conn, timeout_ns);
    if (status != AMB_OK && status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
        fail("poll", status);
    }
}

static void publish_one(struct stream *stream, uint32_t size, uint8_t *bytes)
{
    struct delivery_stamp stamp = {log_head->id, ++stream->number, stream->topic, size};
    note(&(struct delivery_record){.kind = DELIVERY_POSTED,
                                   .publisher = stamp.publisher,
                                   .number = stamp.number,
                                   .topic = stamp.topic,
                                   .size = size});
    if (stamp.number % 5 == 0 || (size < DELIVERY_STAMP && log_head->mode == DELIVERY_CONFIRMED)) {
        publish_lease(stream, &stamp);
    } else {
        fill(bytes, &stamp);
        check("publish", amb_pub_send(stream->pub, bytes, size, AMB_FOREVER));
    }
    unsettled++;
    if (stamp.number % 16 == 0) {
        poll_once(AMB_NOWAIT);
    }
    while (log_head->mode == DELIVERY_CONFIRMED && unsettled >= UNDELIVERED_MAX) {
        poll_once(AMB_SEC);
    }
}

/* Again, when a broker was killed in the middle of it. */
static enum amb_status open_pub(const char *topic, struct stream *stream)
{
    enum amb_status status;
    do {
        status = amb_pub_open(conn, topic,
                              AMB_PUB(.on_settled = on_settled, .arg = stream,
                                      .confirm = log_head->mode == DELIVERY_CONFIRMED
                                                     ? AMB_CONFIRM_DELIVERED
                                                     : AMB_CONFIRM_ACCEPTED),
                              &stream->pub);
    } while (status == AMB_ELOST);
    return status;
}

static int publish(const char *url, const char *path, const struct delivery_head *head,
                   uint64_t messages, uint32_t max)
{
    static struct stream streams[DELIVERY_TOPICS];
    log_open(path, head, messages * SETTLES_MAX + DELIVERY_TOPICS + 1);
    check("connect",
          amb_connect(url,
                      AMB_OPTIONS(.name = "load-pub", .retry_first = 1, .on_event = on_event,
                                  .connect_timeout_ns = PATIENCE_NS, .timeout_ns = PATIENCE_NS),
                      &conn));
    for (uint32_t i = 0; i < DELIVERY_TOPICS; i++) {
        char topic[64];
        (void)snprintf(topic, sizeof(topic), "load.%u.%u", i / (DELIVERY_TOPICS / DELIVERY_GROUPS),
                       i);
        streams[i].topic = i;
        check("open", open_pub(topic, &streams[i]));
    }
    uint8_t *bytes = malloc(max + 8);
    for (uint64_t i = 0; i < messages; i++) {
        uint64_t random = mix(head->id * UINT64_C(0x9e3779b97f4a7c15) + i);
        publish_one(&streams[random % DELIVERY_TOPICS], size_of(mix(random), max), bytes);
    }
    for (uint32_t i = 0; i < DELIVERY_TOPICS; i++) {
        close_is("close", amb_pub_close(streams[i].pub, AT_WORK_NS)); /* The last on_settled. */
    }
    close_is("close", amb_close(conn, AT_WORK_NS));
    note(&(struct delivery_record){.kind = DELIVERY_END});
    free(bytes);
    (void)puts("done");
    return 0;
}

/* ---- subscriber ---- */

/* One in twenty comes again first. */
static void acknowledge(struct amb_msg *msg, struct delivery_record record)
{
    if (record.attempt == 1 && mix(record.seq * DELIVERY_TOPICS + record.topic) % 20 == 0) {
        answered("nak", amb_msg_nak(msg, 0));
        return;
    }
    record.kind = DELIVERY_ACKED;
    note(&record);
    answered("ack", amb_msg_ack(msg));
}

/* The newest of each subscription that is not acknowledged. */
static struct {
    struct amb_msg *msg;
    struct delivery_record record;
} newest[DELIVERY_GROUPS];

static void acknowledge_newest(unsigned group)
{
    if (newest[group].msg != NULL) {
        newest[group].record.kind = DELIVERY_ACKED;
        note(&newest[group].record);
        answered("ack", amb_msg_ack(newest[group].msg));
        amb_msg_release(newest[group].msg);
        newest[group].msg = NULL;
    }
}

static void acknowledge_some(struct amb_msg *msg, const struct delivery_record *record)
{
    unsigned group = record->topic / (DELIVERY_TOPICS / DELIVERY_GROUPS);
    amb_msg_release(newest[group].msg);
    amb_msg_ref(msg);
    newest[group].msg = msg;
    newest[group].record = *record;
    if (mix(record->seq * DELIVERY_TOPICS + record->topic) % 8 == 0) {
        acknowledge_newest(group);
    }
}

static void on_message(struct amb_msg *msg, void *arg)
{
    struct delivery_stamp stamp;
    uint32_t size = (uint32_t)amb_msg_size(msg);
    bool is_whole = is_right(amb_msg_data(msg), size, &stamp);
    size_t len = 0;
    const void *property = amb_msg_prop(msg, DELIVERY_PROPERTY, &len);
    if (property != NULL && len == sizeof(stamp)) {
        memcpy(&stamp, property, len);
        is_whole = is_whole && size < DELIVERY_STAMP && stamp.size == size;
    }
    enum amb_loss why;
    uint64_t lost = amb_msg_lost(msg, &why);
    uint32_t topic = (uint32_t)strtoul(strrchr(amb_msg_topic(msg), '.') + 1, NULL, 10);
    const bool right = is_whole && (stamp.publisher == 0 || stamp.topic == topic);
    struct delivery_record record = {.kind = right ? DELIVERY_RECEIVED : DELIVERY_WRONG,
                                     .publisher = stamp.publisher,
                                     .number = stamp.number,
                                     .seq = amb_msg_seq(msg),
                                     .topic = topic,
                                     .size = size,
                                     .lost = lost < DELIVERY_LOST_ALL ? (uint32_t)lost
                                                                      : DELIVERY_LOST_ALL,
                                     .attempt = (uint16_t)amb_msg_deliveries(msg),
                                     .time_ns = amb_msg_time(msg)};
    note(&record);
    if (log_head->mode == DELIVERY_CUMULATIVE) {
        acknowledge_some(msg, &record);
    } else if (log_head->mode != DELIVERY_PLAIN) {
        acknowledge(msg, record);
    }
    *(bool *)arg = true;
}

static void on_term(int number)
{
    (void)number;
    is_over = 1;
}

static int subscribe(const char *url, const char *path, struct delivery_head *head,
                     uint64_t messages, const char *policy)
{
    static bool has_come;
    (void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    bool drops = strcmp(policy, "drop-oldest") == 0, is_group = strcmp(policy, "group") == 0;
    head->mode = is_group                            ? DELIVERY_GROUP
                 : strcmp(policy, "ack") == 0        ? DELIVERY_ACKS
                 : strcmp(policy, "cumulative") == 0 ? DELIVERY_CUMULATIVE
                                                     : DELIVERY_PLAIN;
    log_open(path, head, messages + 1);
    enum amb_ack ack = log_head->mode == DELIVERY_PLAIN        ? AMB_ACK_NONE
                       : log_head->mode == DELIVERY_CUMULATIVE ? AMB_ACK_CUMULATIVE
                                                               : AMB_ACK_EXPLICIT;
    check("connect",
          amb_connect(url,
                      AMB_OPTIONS(.name = "load-sub", .on_event = on_event,
                                  .connect_timeout_ns = PATIENCE_NS, .timeout_ns = PATIENCE_NS),
                      &conn));
    for (unsigned i = 0; i < DELIVERY_GROUPS; i++) {
        char pattern[64];
        struct amb_sub *sub;
        (void)snprintf(pattern, sizeof(pattern), "load.%u.*", i);
        if ((head->groups >> i & 1) != 0) {
            check("subscribe",
                  amb_subscribe(conn, pattern,
                                AMB_SUB(.slow = drops ? AMB_SLOW_DROP_OLDEST : AMB_SLOW_BLOCK,
                                        .slow_block_ns = AT_WORK_NS, .on_message = on_message,
                                        .ack = ack,
                                        .ack_wait_ns = ack == AMB_ACK_NONE ? 0 : AT_WORK_NS,
                                        .group = is_group ? "load" : NULL, .arg = &has_come),
                                &sub));
        }
    }
    (void)puts("ready");
    (void)fflush(stdout);
    for (bool is_quiet = false; !is_quiet || is_over == 0;) {
        has_come = false;
        enum amb_status status = amb_poll(conn, QUIET_NS);
        if (status != AMB_OK && status != AMB_ETIMEDOUT && status != AMB_EAGAIN) {
            fail("poll", status);
        }
        is_quiet = status == AMB_ETIMEDOUT && !has_come;
        for (unsigned i = 0; is_quiet && i < DELIVERY_GROUPS; i++) {
            acknowledge_newest(i);
        }
    }
    note(&(struct delivery_record){.kind = DELIVERY_END});
    check("close", amb_close(conn, 10 * AMB_SEC));
    return 0;
}

int main(int argc, char **argv)
{
    struct delivery_head head = {0};
    if (argc >= 6 && strcmp(argv[1], "pub") == 0) {
        head.id = strtoull(argv[4], NULL, 10);
        head.mode = argc > 7 && strcmp(argv[7], "delivered") == 0 ? DELIVERY_CONFIRMED : 0;
        return publish(argv[2], argv[3], &head, strtoull(argv[5], NULL, 10),
                       argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 10) : 16u << 20);
    }
    if (argc >= 6 && strcmp(argv[1], "sub") == 0) {
        head.groups = (uint32_t)strtoul(argv[4], NULL, 16);
        head.is_late = argc > 7 && strcmp(argv[7], "late") == 0;
        return subscribe(argv[2], argv[3], &head, strtoull(argv[5], NULL, 10),
                         argc > 6 ? argv[6] : "block");
    }
    (void)fprintf(stderr, "test-load: pub URL LOG ID MESSAGES [MAX_SIZE [delivered]], or sub URL "
                          "LOG GROUPS MESSAGES [POLICY [late]]\n");
    return 64;
}
