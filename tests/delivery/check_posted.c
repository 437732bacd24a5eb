/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that publishers posted, how they were settled, and the deliveries that their
 * publishers were told of. */
#include "tests/delivery/check.h"

#include <stdlib.h>
#include <string.h>

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

/* A message that is settled twice, or before being posted, is noticed by the order: ranges of a
 * topic follow each other. */
static void read_settled(struct publisher *p, const struct delivery_record *r)
{
    struct posted *posted = &p->topics[r->topic];
    if (r->number != posted->settled + 1 || r->seq < r->number || r->seq > posted->count) {
        wrong("publisher %" PRIu64 " topic %u: %" PRIu64 " to %" PRIu64 " settled after %" PRIu64
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
        if (the_check.restarts == 0) {
            wrong("publisher %" PRIu64 " topic %u: %" PRIu64 " to %" PRIu64
                  " unknown, and the broker was there",
                  p->id, r->topic, r->number, r->seq);
        }
    }
}

static void read_posting(const struct log *log, struct publisher *p, uint64_t at)
{
    const struct delivery_record *r = &log->records[at];
    if (r->topic >= DELIVERY_TOPICS || r->publisher != p->id) {
        wrong("%s: record %" PRIu64 " makes no sense", log->path, at);
    } else if (r->kind == DELIVERY_POSTED) {
        if (r->number != p->topics[r->topic].count + 1) {
            wrong("%s: record %" PRIu64 " is out of order", log->path, at);
        }
        posted_add(&p->topics[r->topic], r->size);
    } else if (r->kind == DELIVERY_SETTLED) {
        read_settled(p, r);
    } else if (r->kind != DELIVERY_TOLD || !p->is_confirmed) {
        wrong("%s: record %" PRIu64 " is none of a publisher", log->path, at);
    }
}

void read_publisher(const struct log *log)
{
    struct publisher *p = &the_check.publishers[the_check.publisher_count++];
    p->id = log->head->id;
    p->has_ended = log->has_ended;
    p->is_confirmed = log->head->mode == DELIVERY_CONFIRMED;
    for (uint64_t i = 0; i < log->count; i++) {
        if (log->records[i].kind != DELIVERY_END) {
            read_posting(log, p, i);
        }
    }
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        struct posted *posted = &p->topics[t];
        if (p->has_ended && posted->settled != posted->count) {
            wrong("publisher %" PRIu64 " topic %u: %" PRIu64 " settled of %" PRIu64, p->id, t,
                  posted->settled, posted->count);
        }
        posted->got = must(calloc(posted->count + 1, 1));
        posted->stamped = must(calloc(posted->count + 1, sizeof(uint32_t)));
        for (uint64_t i = 0; i < posted->count; i++) {
            bool says_whose = p->is_confirmed || posted->sizes[i] >= DELIVERY_STAMP;
            posted->stamped[i + 1] = posted->stamped[i] + (says_whose && posted->doubtful[i] == 0);
        }
    }
}

void number_messages(void)
{
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        uint64_t base = 0;
        for (size_t i = 0; i < the_check.publisher_count; i++) {
            the_check.publishers[i].topics[t].base = base;
            base += the_check.publishers[i].topics[t].count;
        }
    }
}

size_t publisher_at(uint64_t id)
{
    size_t i = 0;
    while (i < the_check.publisher_count && the_check.publishers[i].id != id) {
        i++;
    }
    return i;
}

struct posted *posted_of(const struct delivery_record *r)
{
    size_t at = publisher_at(r->publisher);
    if (at == the_check.publisher_count) {
        return NULL;
    }
    struct posted *posted = &the_check.publishers[at].topics[r->topic];
    bool is_there =
        r->number != 0 && r->number <= posted->count && posted->sizes[r->number - 1] == r->size;
    return is_there ? posted : NULL;
}

struct topic_sum sum_of(uint32_t topic)
{
    struct topic_sum sum = {.all_ended = true};
    for (size_t i = 0; i < the_check.publisher_count; i++) {
        const struct publisher *p = &the_check.publishers[i];
        sum.accepted += p->topics[topic].accepted;
        sum.posted += p->topics[topic].count;
        sum.all_ended = sum.all_ended && p->has_ended;
    }
    return sum;
}

/* ---- deliveries that were told ---- */

static void judge_range(const struct log *log, const struct delivery_record *settled,
                        const struct delivery_record *told)
{
    const struct posted *posted =
        &the_check.publishers[publisher_at(log->head->id)].topics[settled->topic];
    if (settled->number == 0 || settled->seq > posted->count || settled->seq < settled->number) {
        return; /* Reported before. */
    }
    uint64_t delivered = told->number, dropped = told->seq, matched = told->lost, have = 0;
    the_check.sums.delivered += delivered;
    the_check.sums.dropped += dropped;
    uint64_t all = matched * (settled->seq - settled->number + 1);
    if (delivered + dropped != all) {
        wrong("%s: topic %u: %" PRIu64 " to %" PRIu64 ": %" PRIu64 " delivered and %" PRIu64
              " dropped, and %" PRIu64 " subscriptions matched",
              log->path, settled->topic, settled->number, settled->seq, delivered, dropped,
              matched);
    }
    for (uint64_t n = settled->number; n <= settled->seq; n++) {
        have += posted->got[n - 1];
        if (dropped == 0 && posted->got[n - 1] < matched) {
            wrong("%s: topic %u: number %" PRIu64 " was told delivered to %" PRIu64
                  ", and %u have it",
                  log->path, settled->topic, n, matched, posted->got[n - 1]);
        }
    }
    bool is_exact = !the_check.is_killed && the_check.restarts == 0;
    if (delivered > have || (is_exact && delivered < have)) {
        wrong("%s: topic %u: %" PRIu64 " to %" PRIu64 ": %" PRIu64 " were told delivered, %" PRIu64
              " have come",
              log->path, settled->topic, settled->number, settled->seq, delivered, have);
    }
}

void judge_told(const struct log *log)
{
    bool is_confirmed = log->head->mode == DELIVERY_CONFIRMED;
    for (uint64_t i = 0; i < log->count && is_confirmed; i++) {
        const struct delivery_record *r = &log->records[i];
        bool is_there = i + 1 < log->count && r[1].kind == DELIVERY_TOLD && r[1].topic == r->topic;
        if (r->kind != DELIVERY_SETTLED || r->size != 0 || r->topic >= DELIVERY_TOPICS) {
            continue;
        }
        if (is_there) {
            judge_range(log, r, &r[1]);
        } else if (!the_check.is_killed || i + 1 < log->count) {
            wrong("%s: topic %u: %" PRIu64 " to %" PRIu64
                  ": settled, and not told how many were delivered",
                  log->path, r->topic, r->number, r->seq);
        }
    }
}
