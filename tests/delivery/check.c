/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a delivery test by what its clients wrote down, and by nothing else.
 *
 *     delivery-check [--killed] [--restarts NS,...] LOG...
 *
 *  - Every message received was posted, by that publisher, with that number, topic and size, and
 *    its bytes are right.
 *  - Per publisher and topic, numbers come in order and none twice to one subscriber.
 *  - Per topic, sequence numbers come in order, and each gap is as large as the loss that the
 *    message behind it reports. The numbers that are missing are exactly those reported lost.
 *  - Each number of a publisher that ended as it should is settled once.
 *  - Where messages are acknowledged, all members of a group together are one subscriber. Each
 *    message is delivered for the first time once, and again only while nobody has acknowledged it.
 *    In the end each has been acknowledged once. Cumulative: what came before an acknowledgement,
 *    on the same subscription, is covered by it; first deliveries come in order.
 *  - Messages that a publisher was told delivered are in the logs of so many subscribers, and
 *    acknowledged there if they acknowledge. There are never more, whoever was killed. Each number
 *    of a range that was dropped nowhere is in as many logs as subscriptions matched. Delivered and
 *    dropped are what matched; where nobody was killed, delivered is exactly what came.
 *  - A subscriber may have read from before the first message to after the last. It has got, or was
 *    told lost, every message that was settled as accepted, and nothing else. One that came late
 *    has done so from its first message on. All end with the same message of a topic. --killed:
 *    publishers may have died. Messages that they posted and that were not settled may be there or
 *    not. Subscribers whose log has no end are judged up to where it stops.
 *  - --restarts: brokers took the place of the first one, begun at those times (ns since 1970).
 *    Then a publisher may be told that nobody knows the fate of a message. A subscription is told
 *    that nobody knows its losses, by its first message from each other broker. Of the messages of
 *    one broker everything is as above: missing numbers were refused, unknown or counted as lost.
 *    Nothing comes twice, whatever became of the broker. Accepted messages may be lost; of those
 *    told delivered everything above holds.
 *
 * Prints one line of JSON, and faults to standard error; exit 1 if there are any.
 */
#include "tests/delivery/check.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRONGS_SHOWN 20u

struct check the_check;

void wrong(const char *format, ...)
{
    if (the_check.wrongs++ >= WRONGS_SHOWN) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}

void *must(void *memory)
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
    if (is_there && the_check.is_killed && (size_t)st.st_size < sizeof(struct delivery_head)) {
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
    bool is_empty = the_check.is_killed && log->head->magic == 0 && log->count == 0;
    if ((log->head->magic != DELIVERY_MAGIC && !is_empty) || log->count > log->head->max) {
        (void)fprintf(stderr, "%s: not a log\n", path);
        exit(2);
    }
    log->has_ended = log->count != 0 && log->records[log->count - 1].kind == DELIVERY_END;
}

static void read_publishers(const struct log *logs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (logs[i].head->id != 0) {
            read_publisher(&logs[i]);
            if (!logs[i].has_ended && !the_check.is_killed) {
                wrong("%s: its publisher did not end as it should", logs[i].path);
            }
        } else {
            find_tops(&logs[i]);
        }
    }
    number_messages();
}

static void read_subscribers(const struct log *logs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (logs[i].head->id != 0 || logs[i].head->mode == DELIVERY_GROUP) {
            continue;
        }
        if (logs[i].head->mode == DELIVERY_PLAIN) {
            read_subscriber(&logs[i]);
        } else {
            read_acknowledging(&logs[i], 1, logs[i].head->mode);
        }
    }
    read_acknowledging(logs, count, DELIVERY_GROUP);
}

static void report(void)
{
    uint64_t posted = 0, accepted = 0, unknown = 0;
    for (size_t i = 0; i < the_check.publisher_count; i++) {
        for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
            posted += the_check.publishers[i].topics[t].count;
            accepted += the_check.publishers[i].topics[t].accepted;
            unknown += the_check.publishers[i].topics[t].unknown;
        }
    }
    const struct sums *sums = &the_check.sums;
    (void)printf("{\"posted\": %" PRIu64 ", \"accepted\": %" PRIu64 ", \"received\": %" PRIu64
                 ", \"lost\": %" PRIu64 ", \"acked\": %" PRIu64 ", \"unknown\": %" PRIu64
                 ", \"told\": %" PRIu64 ", \"delivered\": %" PRIu64 ", \"dropped\": %" PRIu64
                 ", \"wrong\": %" PRIu64 "}\n",
                 posted, accepted, sums->received, sums->lost, sums->acked, unknown, sums->told,
                 sums->delivered, sums->dropped, the_check.wrongs);
}

static void read_starts(const char *text)
{
    char *end = NULL;
    do {
        if (the_check.restarts == CHECK_RESTARTS_MAX) {
            (void)fprintf(stderr, "delivery-check: too many restarts\n");
            exit(64);
        }
        the_check.starts_ns[the_check.restarts++] = strtoll(text, &end, 10);
        text = end + 1;
    } while (*end == ',');
}

int main(int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "--killed") == 0 ? 2 : 1;
    the_check.is_killed = first == 2;
    if (argc > first + 1 && strcmp(argv[first], "--restarts") == 0) {
        read_starts(argv[first + 1]);
        first += 2;
    }
    if (argc <= first) {
        (void)fprintf(stderr, "delivery-check: [--killed] [--restarts NS,...] LOG...\n");
        return 64;
    }
    size_t count = (size_t)(argc - first);
    struct log *logs = must(calloc(count, sizeof(*logs)));
    the_check.publishers = must(calloc(count, sizeof(*the_check.publishers)));
    for (size_t i = 0; i < count; i++) {
        log_open(&logs[i], argv[first + (int)i]);
    }
    read_publishers(logs, count);
    read_subscribers(logs, count);
    for (size_t i = 0; i < count; i++) {
        if (logs[i].head->id != 0) {
            judge_told(&logs[i]);
        }
    }
    report();
    return the_check.wrongs == 0 ? 0 : 1;
}
