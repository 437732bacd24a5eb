/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a delivery test by what its clients wrote down, and by nothing else.
 *
 *     delivery-check [--killed] [--restarts N] LOG...
 *
 *  - Every message received was posted, by that publisher, with that number, topic and size, and
 *    its bytes are right.
 *  - Per publisher and topic, numbers come in order and none twice to one subscriber.
 *  - Per topic, sequence numbers come in order, and each gap is as large as the loss that the
 *    message behind it reports. What is missing by number is exactly what was reported lost.
 *  - Each number of a publisher that ended as it should is settled once.
 *  - Where messages are acknowledged (all members of a group together are one subscriber): each is
 *    delivered for the first time once, again only while nobody has acknowledged it, and in the end
 *    each has been acknowledged once. Cumulative: what came before an acknowledgement, on the same
 *    subscription, is covered by it; first deliveries come in order.
 *  - A subscriber that read from before the first message to after the last has got, or was told
 *    lost, every message that was settled as accepted, and nothing else. --killed: publishers may
 *    have died: what they posted and was not settled may be there or not; subscribers whose log
 *    has no end are judged up to where it stops.
 *  - --restarts: the broker was replaced N times. Then a publisher may be told that nobody knows
 *    what became of a message, and a subscription, up to N times, that nobody knows what it has
 *    lost; what it gets of its topics from there on is another broker's. Between two such words,
 *    and after the last, everything is as above: what is missing by number there was refused,
 *    unknown or counted as lost. Nothing comes twice, whatever became of the broker.
 *
 * Prints one line of JSON, and what is wrong to standard error; exit 1 if anything is.
 */
#include "tests/delivery/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRONGS_SHOWN 20u
#define GROUP_TOPICS (DELIVERY_TOPICS / DELIVERY_GROUPS)

struct log {
    const char *path;
    const struct delivery_head *head;
    const struct delivery_record *records;
    uint64_t count;
    bool has_ended;
};

/* What one publisher posted to one topic. */
struct posted {
    uint32_t *sizes;   /* of number i + 1 */
    uint32_t *stamped; /* how many of the first i numbers say whose they are and were, as far as
                          anybody knows, accepted; [count + 1] */
    uint8_t *doubtful; /* number i + 1 was refused or is unknown */
    uint64_t count, capacity;
    uint64_t settled, accepted, unknown; /* numbers */
};

struct publisher {
    uint64_t id;
    bool has_ended;
    struct posted topics[DELIVERY_TOPICS];
};

/* What has become of a topic's messages in a group, by sequence number. */
enum fate {
    FATE_DELIVERED = 1,
    FATE_ACKED = 2,
};

struct fates {
    uint8_t *of;
    uint64_t size, acked;
};

/* Deliveries that no acknowledgement covers: indices of records. */
struct waiting {
    uint64_t *records;
    uint64_t count, capacity;
};

/* One subscriber's reading of one topic. */
struct reading {
    uint64_t seq, received, lost, stamped, missing;
    uint64_t life;  /* of its subscription, when it got its last message */
    uint64_t *last; /* by publisher: number, */
    uint64_t *when; /* and the life in which it came */
};

static struct publisher *publishers;
static size_t publisher_count;
static uint64_t wrongs;
static bool is_killed;
static uint64_t restarts, told; /* brokers replaced; how often subscriptions heard of one */

#define WRONG(...)                                                                                 \
    do {                                                                                           \
        if (wrongs++ < WRONGS_SHOWN) {                                                             \
            (void)fprintf(stderr, __VA_ARGS__);                                                    \
            (void)fputc('\n', stderr);                                                             \
        }                                                                                          \
    } while (0)

static void *must(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "delivery-check: no memory\n");
        exit(2);
    }
    return memory;
}

static void log_open(struct log *log, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *base = MAP_FAILED;
    bool is_there = fd >= 0 && fstat(fd, &st) == 0;
    if (is_there && is_killed && (size_t)st.st_size < sizeof(struct delivery_head)) {
        static const struct delivery_head nothing = {.magic = DELIVERY_MAGIC};
        log->head = &nothing; /* It died at its very beginning. */
        (void)close(fd);
        return;
    }
    if (is_there && (size_t)st.st_size >= sizeof(struct delivery_head)) {
        base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (base == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    (void)close(fd);
    log->path = path;
    log->head = base;
    log->records = (const struct delivery_record *)(log->head + 1);
    log->count = atomic_load_explicit(&log->head->count, memory_order_acquire);
    bool is_empty = is_killed && log->head->magic == 0 && log->count == 0;
    if ((log->head->magic != DELIVERY_MAGIC && !is_empty) || log->count > log->head->max) {
        (void)fprintf(stderr, "%s: not a log\n", path);
        exit(2);
    }
    log->has_ended = log->count != 0 && log->records[log->count - 1].kind == DELIVERY_END;
}

/* ---- publishers ---- */

static void posted_add(struct posted *posted, uint32_t size)
{
    if (posted->count == posted->capacity) {
        posted->capacity = posted->capacity != 0 ? posted->capacity * 2 : 1024;
        posted->sizes = must(realloc(posted->sizes, posted->capacity * sizeof(uint32_t)));
        posted->doubtful = must(realloc(posted->doubtful, posted->capacity));
    }
    posted->doubtful[posted->count] = 0;
    posted->sizes[posted->count++] = size;
}

/* Who is settled twice, or before being posted, is noticed by the order: ranges of a topic follow
 * each other. */
static void read_settled(struct publisher *p, const struct delivery_record *r)
{
    struct posted *posted = &p->topics[r->topic];
    if (r->number != posted->settled + 1 || r->seq < r->number || r->seq > posted->count) {
        WRONG("publisher %" PRIu64 " topic %u: %" PRIu64 " to %" PRIu64 " settled after %" PRIu64
              " of %" PRIu64,
              p->id, r->topic, r->number, r->seq, posted->settled, posted->count);
        return;
    }
    posted->settled = r->seq;
    uint64_t count = r->seq - r->number + 1;
    if (r->size == 0) {
        posted->accepted += count;
    } else {
        memset(posted->doubtful + r->number - 1, 1, count);
    }
    if (r->size == DELIVERY_UNKNOWN) {
        posted->unknown += count;
        if (restarts == 0) {
            WRONG("publisher %" PRIu64 " topic %u: %" PRIu64 " to %" PRIu64
                  " unknown, and the broker was there",
                  p->id, r->topic, r->number, r->seq);
        }
    }
}

static void read_publisher(const struct log *log)
{
    struct publisher *p = &publishers[publisher_count++];
    p->id = log->head->id;
    p->has_ended = log->has_ended;
    for (uint64_t i = 0; i < log->count; i++) {
        const struct delivery_record *r = &log->records[i];
        if (r->kind == DELIVERY_END) {
            continue;
        }
        if (r->topic >= DELIVERY_TOPICS || r->publisher != p->id) {
            WRONG("%s: record %" PRIu64 " makes no sense", log->path, i);
        } else if (r->kind == DELIVERY_POSTED) {
            if (r->number != p->topics[r->topic].count + 1) {
                WRONG("%s: record %" PRIu64 " is out of order", log->path, i);
            }
            posted_add(&p->topics[r->topic], r->size);
        } else {
            read_settled(p, r);
        }
    }
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        struct posted *posted = &p->topics[t];
        if (p->has_ended && posted->settled != posted->count) {
            WRONG("publisher %" PRIu64 " topic %u: %" PRIu64 " settled of %" PRIu64, p->id, t,
                  posted->settled, posted->count);
        }
        posted->stamped = must(calloc(posted->count + 1, sizeof(uint32_t)));
        for (uint64_t i = 0; i < posted->count; i++) {
            bool is_due = posted->sizes[i] >= DELIVERY_STAMP && posted->doubtful[i] == 0;
            posted->stamped[i + 1] = posted->stamped[i] + is_due;
        }
    }
}

static size_t publisher_at(uint64_t id)
{
    size_t i = 0;
    while (i < publisher_count && publishers[i].id != id) {
        i++;
    }
    return i;
}

/* ---- subscribers ---- */

static void read_stamped(const struct log *log, struct reading *reading,
                         const struct delivery_record *r)
{
    size_t at = publisher_at(r->publisher);
    const struct posted *posted = at < publisher_count ? &publishers[at].topics[r->topic] : NULL;
    if (posted == NULL || r->number == 0 || r->number > posted->count ||
        posted->sizes[r->number - 1] != r->size) {
        WRONG("%s: topic %u seq %" PRIu64 ": publisher %" PRIu64 " never posted number %" PRIu64
              " with %u bytes",
              log->path, r->topic, r->seq, r->publisher, r->number, r->size);
        return;
    }
    uint64_t last = reading->last[at];
    if (r->number <= last) {
        WRONG("%s: topic %u seq %" PRIu64 ": publisher %" PRIu64 " number %" PRIu64
              " after %" PRIu64,
              log->path, r->topic, r->seq, r->publisher, r->number, last);
        return;
    }
    if (reading->when[at] == reading->life) { /* Else the end of a broker explains it. */
        reading->missing += posted->stamped[r->number - 1] - posted->stamped[last];
    }
    reading->last[at] = r->number;
    reading->when[at] = reading->life;
    reading->stamped++;
}

/* lives: of each subscription, how often it was told that its broker is another one: with the first
 * message after, and with that of each topic which it had read before. */
static void read_received(const struct log *log, struct reading *readings, uint64_t *lives,
                          const struct delivery_record *r)
{
    if (r->topic >= DELIVERY_TOPICS || (log->head->groups >> r->topic / GROUP_TOPICS & 1) == 0) {
        WRONG("%s: topic %u was not asked for", log->path, r->topic);
        return;
    }
    struct reading *reading = &readings[r->topic];
    if (r->kind == DELIVERY_WRONG) {
        WRONG("%s: topic %u seq %" PRIu64 ": wrong bytes", log->path, r->topic, r->seq);
    }
    uint64_t *life = &lives[r->topic / GROUP_TOPICS];
    bool is_another = r->lost == DELIVERY_LOST_ALL;
    if (is_another && reading->life == *life && ++*life > restarts) {
        WRONG("%s: topic %u seq %" PRIu64 ": told %" PRIu64 " times that the broker is another one",
              log->path, r->topic, r->seq, *life);
    }
    if (reading->life == *life && reading->seq != 0 && r->seq != reading->seq + 1 + r->lost) {
        WRONG("%s: topic %u: seq %" PRIu64 " after %" PRIu64 ", and %u reported lost", log->path,
              r->topic, r->seq, reading->seq, r->lost);
    }
    reading->life = *life;
    reading->seq = r->seq;
    reading->received++;
    reading->lost += is_another ? 0 : r->lost;
    if (r->kind == DELIVERY_RECEIVED && r->size >= DELIVERY_STAMP) {
        read_stamped(log, reading, r);
    }
}

/* Everything of a topic from its first message to its last has come or is known to be lost. */
static void judge_whole(const struct log *log, uint32_t topic, const struct reading *reading,
                        uint64_t life)
{
    uint64_t accepted = 0, posted = 0, tail = 0;
    bool all_ended = true;
    for (size_t i = 0; i < publisher_count; i++) {
        const struct posted *p = &publishers[i].topics[topic];
        accepted += p->accepted;
        posted += p->count;
        all_ended = all_ended && publishers[i].has_ended;
        if (reading->when[i] == life) {
            tail += p->stamped[p->count] - p->stamped[reading->last[i]];
        }
    }
    uint64_t got = reading->received + reading->lost;
    if (life == 0 && (got < accepted || (restarts == 0 && got > (all_ended ? accepted : posted)))) {
        WRONG("%s: topic %u: %" PRIu64 " received and %" PRIu64 " lost of %" PRIu64
              " accepted, %" PRIu64 " posted",
              log->path, topic, reading->received, reading->lost, accepted, posted);
    }
    /* What is missing by number, tiny ones aside, is some of what was lost. */
    if (all_ended && (restarts != 0 || accepted == posted) &&
        reading->missing + tail > reading->lost) {
        WRONG("%s: topic %u: %" PRIu64 " numbers are missing, %" PRIu64 " reported lost", log->path,
              topic, reading->missing + tail, reading->lost);
    }
}

static void read_subscriber(const struct log *log, uint64_t *received, uint64_t *lost)
{
    uint64_t lives[DELIVERY_GROUPS] = {0};
    struct reading *readings = must(calloc(DELIVERY_TOPICS, sizeof(*readings)));
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        readings[t].last = must(calloc(publisher_count + 1, sizeof(uint64_t)));
        readings[t].when = must(calloc(publisher_count + 1, sizeof(uint64_t)));
    }
    for (uint64_t i = 0; i < log->count; i++) {
        if (log->records[i].kind == DELIVERY_RECEIVED || log->records[i].kind == DELIVERY_WRONG) {
            read_received(log, readings, lives, &log->records[i]);
        }
    }
    if (!log->has_ended && !is_killed) {
        WRONG("%s: its subscriber did not end as it should", log->path);
    }
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        if (log->has_ended && (log->head->groups >> t / GROUP_TOPICS & 1) != 0) {
            judge_whole(log, t, &readings[t], lives[t / GROUP_TOPICS]);
        }
        *received += readings[t].received;
        *lost += readings[t].lost;
        free(readings[t].last);
        free(readings[t].when);
    }
    for (unsigned i = 0; i < DELIVERY_GROUPS; i++) {
        told += lives[i];
    }
    free(readings);
}

/* ---- acknowledgements ---- */

static uint8_t *fate_at(struct fates *fates, uint64_t seq)
{
    if (seq >= fates->size) {
        uint64_t size = fates->size != 0 ? fates->size : 4096;
        while (size <= seq) {
            size *= 2;
        }
        fates->of = must(realloc(fates->of, size));
        memset(fates->of + fates->size, 0, size - fates->size);
        fates->size = size;
    }
    return &fates->of[seq];
}

static bool was_posted(const struct delivery_record *r)
{
    size_t at = publisher_at(r->publisher);
    const struct posted *posted = at < publisher_count ? &publishers[at].topics[r->topic] : NULL;
    return r->size < DELIVERY_STAMP || r->kind == DELIVERY_WRONG ||
           (posted != NULL && r->number != 0 && r->number <= posted->count &&
            posted->sizes[r->number - 1] == r->size);
}

/* Members' logs have no order between them, so first all deliveries, then all acknowledgements. */
static void read_deliveries(const struct log *log, struct fates *fates)
{
    uint64_t last[DELIVERY_TOPICS] = {0};
    for (uint64_t i = 0; i < log->count; i++) {
        const struct delivery_record *r = &log->records[i];
        if ((r->kind != DELIVERY_RECEIVED && r->kind != DELIVERY_WRONG) ||
            r->topic >= DELIVERY_TOPICS) {
            continue;
        }
        uint8_t *fate = fate_at(&fates[r->topic], r->seq);
        if (r->attempt == 1 && (*fate & FATE_DELIVERED) != 0) {
            WRONG("%s: topic %u seq %" PRIu64 ": a first delivery, and not the first", log->path,
                  r->topic, r->seq);
        }
        if (r->kind == DELIVERY_WRONG) {
            WRONG("%s: topic %u seq %" PRIu64 ": wrong bytes", log->path, r->topic, r->seq);
        }
        if (!was_posted(r)) {
            WRONG("%s: topic %u seq %" PRIu64 ": never posted", log->path, r->topic, r->seq);
        }
        if (r->attempt == 1 && r->seq <= last[r->topic]) {
            WRONG("%s: topic %u seq %" PRIu64 " for the first time after %" PRIu64, log->path,
                  r->topic, r->seq, last[r->topic]);
        }
        last[r->topic] = r->attempt == 1 ? r->seq : last[r->topic];
        *fate |= r->attempt == 1 ? FATE_DELIVERED : 0;
    }
}

static void read_acks(const struct log *log, struct fates *fates)
{
    for (uint64_t i = 0; i < log->count; i++) {
        const struct delivery_record *r = &log->records[i];
        if (r->kind != DELIVERY_ACKED || r->topic >= DELIVERY_TOPICS) {
            continue;
        }
        uint8_t *fate = fate_at(&fates[r->topic], r->seq);
        if ((*fate & FATE_ACKED) != 0 && !is_killed) {
            WRONG("%s: topic %u seq %" PRIu64 ": acknowledged twice", log->path, r->topic, r->seq);
        }
        fates[r->topic].acked += (*fate & FATE_ACKED) == 0;
        *fate |= FATE_ACKED;
    }
}

/* One record of a cumulative subscriber; waiting: what its subscriptions got and no acknowledgement
 * covers, as indices of records. */
static void read_cumulative_one(const struct log *log, uint64_t at, struct fates *fates,
                                struct waiting *waiting)
{
    const struct delivery_record *r = &log->records[at];
    if (r->topic >= DELIVERY_TOPICS || r->kind == DELIVERY_END) {
        return;
    }
    struct waiting *own = &waiting[r->topic / GROUP_TOPICS];
    uint8_t *fate = fate_at(&fates[r->topic], r->seq);
    if (r->kind != DELIVERY_ACKED) {
        if ((*fate & FATE_ACKED) != 0) {
            WRONG("%s: topic %u seq %" PRIu64 ": again, though acknowledged", log->path, r->topic,
                  r->seq);
        }
        if (own->count == own->capacity) {
            own->capacity = own->capacity != 0 ? own->capacity * 2 : 1024;
            own->records = must(realloc(own->records, own->capacity * sizeof(*own->records)));
        }
        own->records[own->count++] = at;
        return;
    }
    bool is_there = false;
    for (uint64_t i = 0; i < own->count; i++) {
        const struct delivery_record *covered = &log->records[own->records[i]];
        is_there = is_there || (covered->topic == r->topic && covered->seq == r->seq);
        fate = fate_at(&fates[covered->topic], covered->seq);
        fates[covered->topic].acked += (*fate & FATE_ACKED) == 0;
        *fate |= FATE_ACKED;
    }
    own->count = 0;
    if (!is_there) {
        WRONG("%s: topic %u seq %" PRIu64 ": acknowledged, and not there", log->path, r->topic,
              r->seq);
    }
}

static void read_cumulative(const struct log *log, struct fates *fates)
{
    struct waiting waiting[DELIVERY_GROUPS] = {0};
    for (uint64_t i = 0; i < log->count; i++) {
        read_cumulative_one(log, i, fates, waiting);
    }
    for (unsigned i = 0; i < DELIVERY_GROUPS; i++) {
        free(waiting[i].records);
    }
}

static uint64_t judge_acks(const char *who, uint32_t groups, struct fates *fates)
{
    uint64_t acked = 0;
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        uint64_t accepted = 0, posted = 0;
        bool all_ended = true;
        for (size_t i = 0; i < publisher_count; i++) {
            accepted += publishers[i].topics[t].accepted;
            posted += publishers[i].topics[t].count;
            all_ended = all_ended && publishers[i].has_ended;
        }
        if ((groups >> t / GROUP_TOPICS & 1) != 0 &&
            (fates[t].acked < accepted || fates[t].acked > (all_ended ? accepted : posted))) {
            WRONG("%s: topic %u: %" PRIu64 " acknowledged of %" PRIu64 " accepted", who, t,
                  fates[t].acked, accepted);
        }
        acked += fates[t].acked;
        free(fates[t].of);
    }
    return acked;
}

/* A subscriber with acknowledgements of its own, or all members of the group. */
static uint64_t read_acknowledging(const struct log *logs, size_t count, uint32_t mode,
                                   uint64_t *received)
{
    struct fates *fates = must(calloc(DELIVERY_TOPICS, sizeof(*fates)));
    uint32_t groups = 0;
    const char *who = NULL;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            const struct log *log = &logs[i];
            if (log->head->id != 0 || log->head->mode != mode) {
                continue;
            }
            who = log->path;
            groups |= log->head->groups;
            if (pass == 0) {
                read_deliveries(log, fates);
                *received += log->count;
                if (!log->has_ended && !is_killed) {
                    WRONG("%s: its subscriber did not end as it should", log->path);
                }
            } else if (mode == DELIVERY_CUMULATIVE) {
                read_cumulative(log, fates);
            } else {
                read_acks(log, fates);
            }
        }
    }
    /* One alone that died is judged by nobody's acknowledgements. */
    bool is_cut = mode != DELIVERY_GROUP && !logs[0].has_ended;
    uint64_t acked = who != NULL && !is_cut ? judge_acks(who, groups, fates) : 0;
    free(fates);
    return acked;
}

int main(int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "--killed") == 0 ? 2 : 1;
    is_killed = first == 2;
    if (argc > first + 1 && strcmp(argv[first], "--restarts") == 0) {
        restarts = strtoull(argv[first + 1], NULL, 10);
        first += 2;
    }
    if (argc <= first) {
        (void)fprintf(stderr, "delivery-check: [--killed] [--restarts N] LOG...\n");
        return 64;
    }
    size_t count = (size_t)(argc - first);
    struct log *logs = must(calloc(count, sizeof(*logs)));
    publishers = must(calloc(count, sizeof(*publishers)));
    uint64_t posted = 0, accepted = 0, unknown = 0, received = 0, lost = 0, acked = 0;
    for (size_t i = 0; i < count; i++) {
        log_open(&logs[i], argv[first + (int)i]);
        if (logs[i].head->id != 0) {
            read_publisher(&logs[i]);
            if (!publishers[publisher_count - 1].has_ended && !is_killed) {
                WRONG("%s: its publisher did not end as it should", logs[i].path);
            }
        }
    }
    for (size_t i = 0; i < publisher_count; i++) {
        for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
            posted += publishers[i].topics[t].count;
            accepted += publishers[i].topics[t].accepted;
            unknown += publishers[i].topics[t].unknown;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (logs[i].head->id != 0) {
            continue;
        }
        if (logs[i].head->mode == DELIVERY_PLAIN) {
            read_subscriber(&logs[i], &received, &lost);
        } else if (logs[i].head->mode != DELIVERY_GROUP) {
            acked += read_acknowledging(&logs[i], 1, logs[i].head->mode, &received);
        }
    }
    acked += read_acknowledging(logs, count, DELIVERY_GROUP, &received);
    (void)printf("{\"posted\": %" PRIu64 ", \"accepted\": %" PRIu64 ", \"received\": %" PRIu64
                 ", \"lost\": %" PRIu64 ", \"acked\": %" PRIu64 ", \"unknown\": %" PRIu64
                 ", \"told\": %" PRIu64 ", \"wrong\": %" PRIu64 "}\n",
                 posted, accepted, received, lost, acked, unknown, told, wrongs);
    return wrongs == 0 ? 0 : 1;
}
