/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of subscribers with acknowledgements, and their fate. */
#include "tests/delivery/check.h"

#include <stdlib.h>
#include <string.h>

/* The fate of a topic's messages in a group, by key_of(). */
enum fate {
    FATE_DELIVERED = 1,
    FATE_ACKED = 2,
};

struct fates {
    uint8_t *of;
    uint64_t size, acked;
    uint64_t first; /* the lowest sequence that came; 0: nothing has */
};

/* Deliveries that no acknowledgement covers: indices of records. */
struct waiting {
    uint64_t *records;
    uint64_t count, capacity;
};

/* Sequences begin anew with each broker; then each message must say whose it is. */
static uint64_t key_of(const struct delivery_record *r)
{
    if (the_check.restarts == 0) {
        return r->seq;
    }
    const struct posted *posted = posted_of(r);
    return posted != NULL ? posted->base + r->number : 0;
}

static uint8_t *fate_of(struct fates *fates, const struct delivery_record *r)
{
    uint64_t key = key_of(r);
    if (key >= fates->size) {
        uint64_t size = fates->size != 0 ? fates->size : 4096;
        while (size <= key) {
            size *= 2;
        }
        fates->of = must(realloc(fates->of, size));
        memset(fates->of + fates->size, 0, size - fates->size);
        fates->size = size;
    }
    return &fates->of[key];
}

static bool was_posted(const struct delivery_record *r)
{
    bool cannot_say = r->size < DELIVERY_STAMP && r->publisher == 0 && the_check.restarts == 0;
    return cannot_say || r->kind == DELIVERY_WRONG || posted_of(r) != NULL;
}

static void read_first(const struct log *log, struct fates *fates, uint64_t *last,
                       const struct delivery_record *r)
{
    uint8_t *fate = fate_of(&fates[r->topic], r);
    if ((*fate & FATE_DELIVERED) != 0) {
        wrong("%s: topic %u seq %" PRIu64 ": a first delivery, and not the first", log->path,
              r->topic, r->seq);
    }
    *fate |= FATE_DELIVERED;
    size_t at = the_check.restarts == 0 ? 0 : publisher_at(r->publisher);
    uint64_t number = the_check.restarts == 0 ? r->seq : r->number;
    last += at * DELIVERY_TOPICS + r->topic;
    /* A message that a dead member of a group had not been sent yet is another's first delivery,
     * later. */
    if (number <= *last && !(the_check.is_killed && log->head->mode == DELIVERY_GROUP)) {
        wrong("%s: topic %u seq %" PRIu64 " for the first time after %" PRIu64, log->path, r->topic,
              number, *last);
    }
    *last = number;
}

/* Members' logs have no order between them, so first all deliveries, then all acknowledgements. */
static void read_deliveries(const struct log *log, struct fates *fates)
{
    uint64_t *last =
        must(calloc((the_check.publisher_count + 1) * DELIVERY_TOPICS, sizeof(uint64_t)));
    for (uint64_t i = 0; i < log->count; i++) {
        const struct delivery_record *r = &log->records[i];
        if (!is_received(r) || r->topic >= DELIVERY_TOPICS) {
            continue;
        }
        if (r->kind == DELIVERY_WRONG) {
            wrong("%s: topic %u seq %" PRIu64 ": wrong bytes", log->path, r->topic, r->seq);
        }
        if (!was_posted(r)) {
            wrong("%s: topic %u seq %" PRIu64 ": never posted", log->path, r->topic, r->seq);
            continue;
        }
        struct fates *of = &fates[r->topic];
        of->first = of->first == 0 || r->seq < of->first ? r->seq : of->first;
        if (r->attempt == 1) {
            read_first(log, fates, last, r);
        }
        the_check.sums.received++;
        the_check.sums.told += r->lost == DELIVERY_LOST_ALL;
    }
    free(last);
}

/* `r` is covered by an acknowledgement; false: not for the first time. */
static bool cover(struct fates *fates, const struct delivery_record *r)
{
    uint8_t *fate = fate_of(&fates[r->topic], r);
    if ((*fate & FATE_ACKED) != 0) {
        return false;
    }
    *fate |= FATE_ACKED;
    fates[r->topic].acked++;
    struct posted *posted = posted_of(r);
    if (posted != NULL) {
        posted->got[r->number - 1]++;
    }
    return true;
}

static void read_acks(const struct log *log, struct fates *fates)
{
    for (uint64_t i = 0; i < log->count; i++) {
        const struct delivery_record *r = &log->records[i];
        if (r->kind == DELIVERY_ACKED && r->topic < DELIVERY_TOPICS && !cover(fates, r) &&
            !the_check.is_killed) {
            wrong("%s: topic %u seq %" PRIu64 ": acknowledged twice", log->path, r->topic, r->seq);
        }
    }
}

static void waiting_add(struct waiting *waiting, uint64_t at)
{
    if (waiting->count == waiting->capacity) {
        waiting->capacity = waiting->capacity != 0 ? waiting->capacity * 2 : 1024;
        waiting->records = must(realloc(waiting->records, waiting->capacity * sizeof(uint64_t)));
    }
    waiting->records[waiting->count++] = at;
}

/* One record of a cumulative subscriber; waiting: what its subscriptions got and no acknowledgement
 * covers. */
static void read_cumulative_one(const struct log *log, uint64_t at, struct fates *fates,
                                struct waiting *waiting)
{
    const struct delivery_record *r = &log->records[at];
    if (r->topic >= DELIVERY_TOPICS || r->kind == DELIVERY_END) {
        return;
    }
    struct waiting *own = &waiting[r->topic / GROUP_TOPICS];
    if (r->kind != DELIVERY_ACKED) {
        if ((*fate_of(&fates[r->topic], r) & FATE_ACKED) != 0) {
            wrong("%s: topic %u seq %" PRIu64 ": again, though acknowledged", log->path, r->topic,
                  r->seq);
        }
        waiting_add(own, at);
        return;
    }
    bool is_there = false;
    for (uint64_t i = 0; i < own->count; i++) {
        const struct delivery_record *covered = &log->records[own->records[i]];
        is_there = is_there || (covered->topic == r->topic && covered->seq == r->seq);
        (void)cover(fates, covered);
    }
    own->count = 0;
    if (!is_there) {
        wrong("%s: topic %u seq %" PRIu64 ": acknowledged, and not there", log->path, r->topic,
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

static void judge_acks(const char *who, uint32_t topic, bool is_late, const struct fates *fates)
{
    struct topic_sum sum = sum_of(topic);
    uint64_t least = sum.accepted, most = sum.all_ended ? sum.accepted : sum.posted;
    if (the_check.restarts != 0) {
        least = 0; /* Messages that were told delivered are asked for elsewhere. */
        most = sum.posted;
    } else if (is_late) {
        least = fates->first != 0 ? the_check.tops[topic] - fates->first + 1 : 0;
        most = least;
    }
    if (fates->acked < least || fates->acked > most) {
        wrong("%s: topic %u: %" PRIu64 " acknowledged of %" PRIu64 " accepted", who, topic,
              fates->acked, least);
    }
}

static void read_member(const struct log *log, uint32_t mode, struct fates *fates, unsigned pass)
{
    if (pass == 0) {
        read_deliveries(log, fates);
        if (!log->has_ended && !the_check.is_killed) {
            wrong("%s: its subscriber did not end as it should", log->path);
        }
    } else if (mode == DELIVERY_CUMULATIVE) {
        read_cumulative(log, fates);
    } else {
        read_acks(log, fates);
    }
}

void read_acknowledging(const struct log *logs, size_t count, uint32_t mode)
{
    struct fates *fates = must(calloc(DELIVERY_TOPICS, sizeof(*fates)));
    const struct log *who = NULL;
    uint32_t groups = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            if (logs[i].head->id == 0 && logs[i].head->mode == mode) {
                who = &logs[i];
                groups |= who->head->groups;
                read_member(who, mode, fates, pass);
            }
        }
    }
    /* One alone that died is judged by nobody's acknowledgements. */
    bool is_cut = who == NULL || (mode != DELIVERY_GROUP && !who->has_ended);
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        if (!is_cut && (groups >> t / GROUP_TOPICS & 1) != 0) {
            bool is_late = mode != DELIVERY_GROUP && who->head->is_late != 0;
            judge_acks(who->path, t, is_late, &fates[t]);
        }
        the_check.sums.acked += fates[t].acked;
        free(fates[t].of);
    }
    free(fates);
}
