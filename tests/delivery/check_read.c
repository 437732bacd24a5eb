/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of subscribers without acknowledgements, and the losses that they were told of. */
#include "tests/delivery/check.h"

#include <stdlib.h>

/* One subscriber's reading of one topic. */
struct reading {
    uint64_t seq, received, lost, missing;
    uint64_t life;  /* the broker of its last message */
    uint64_t *last; /* by publisher: number, */
    uint64_t *when; /* and the life in which it came */
};

void find_tops(const struct log *log)
{
    for (uint64_t i = 0; i < log->count; i++) {
        const struct delivery_record *r = &log->records[i];
        if (is_received(r) && r->topic < DELIVERY_TOPICS && r->seq > the_check.tops[r->topic]) {
            the_check.tops[r->topic] = r->seq;
        }
    }
}

static void read_stamped(const struct log *log, struct reading *reading,
                         const struct delivery_record *r)
{
    struct posted *posted = posted_of(r);
    if (posted == NULL) {
        wrong("%s: topic %u seq %" PRIu64 ": publisher %" PRIu64 " never posted number %" PRIu64
              " with %u bytes",
              log->path, r->topic, r->seq, r->publisher, r->number, r->size);
        return;
    }
    size_t at = publisher_at(r->publisher);
    uint64_t last = reading->last[at];
    if (r->number <= last) {
        wrong("%s: topic %u seq %" PRIu64 ": publisher %" PRIu64 " number %" PRIu64
              " after %" PRIu64,
              log->path, r->topic, r->seq, r->publisher, r->number, last);
        return;
    }
    /* Else the end of a broker explains it, or that its reader came late. */
    bool must_follow = last != 0 || log->head->is_late == 0;
    if (reading->when[at] == reading->life && must_follow) {
        reading->missing += posted->stamped[r->number - 1] - posted->stamped[last];
    }
    reading->last[at] = r->number;
    reading->when[at] = reading->life;
    posted->got[r->number - 1]++;
}

/* One subscription. */
struct subscription {
    uint64_t life, received; /* the broker of its last message, and how many it has got */
};

/* The first message from another broker says so. */
static void read_life(const struct log *log, struct subscription *sub,
                      const struct delivery_record *r)
{
    uint64_t life = life_of(r);
    bool is_told = r->lost == DELIVERY_LOST_ALL;
    if (life < sub->life) {
        wrong("%s: topic %u seq %" PRIu64 ": of broker %" PRIu64 " after one of %" PRIu64,
              log->path, r->topic, r->seq, life, sub->life);
    }
    if (life > sub->life && sub->received != 0 && !is_told) {
        wrong("%s: topic %u seq %" PRIu64 ": the first of another broker, and nothing reported",
              log->path, r->topic, r->seq);
    }
    if (life == 0 && is_told) {
        wrong("%s: topic %u seq %" PRIu64 ": told of another broker by the first one", log->path,
              r->topic, r->seq);
    }
    the_check.sums.told += life > sub->life && is_told;
    sub->life = life > sub->life ? life : sub->life;
    sub->received++;
}

static void read_received(const struct log *log, struct reading *readings,
                          struct subscription *subs, const struct delivery_record *r)
{
    if (r->topic >= DELIVERY_TOPICS || !has_topic(log, r->topic)) {
        wrong("%s: topic %u was not asked for", log->path, r->topic);
        return;
    }
    struct reading *reading = &readings[r->topic];
    struct subscription *sub = &subs[r->topic / GROUP_TOPICS];
    if (r->kind == DELIVERY_WRONG) {
        wrong("%s: topic %u seq %" PRIu64 ": wrong bytes", log->path, r->topic, r->seq);
    }
    read_life(log, sub, r);
    bool is_told = r->lost == DELIVERY_LOST_ALL, is_first = reading->life != sub->life;
    if (is_told && !is_first && reading->seq != 0) {
        wrong("%s: topic %u seq %" PRIu64 ": told of another broker, and it is the same", log->path,
              r->topic, r->seq);
    }
    if (!is_told && !is_first && reading->seq != 0 && r->seq != reading->seq + 1 + r->lost) {
        wrong("%s: topic %u: seq %" PRIu64 " after %" PRIu64 ", and %u reported lost", log->path,
              r->topic, r->seq, reading->seq, r->lost);
    }
    reading->life = sub->life;
    reading->seq = r->seq;
    reading->received++;
    reading->lost += is_told ? 0 : r->lost;
    if (r->kind == DELIVERY_RECEIVED && (r->size >= DELIVERY_STAMP || r->publisher != 0)) {
        read_stamped(log, reading, r);
    }
}

/* Everything of a topic from its first message, or from the subscriber's, to its last has come or
 * is known to be lost. */
static void judge_whole(const struct log *log, uint32_t topic, const struct reading *reading,
                        uint64_t life)
{
    struct topic_sum sum = sum_of(topic);
    uint64_t tail = 0, got = reading->received + reading->lost;
    for (size_t i = 0; i < the_check.publisher_count; i++) {
        const struct posted *p = &the_check.publishers[i].topics[topic];
        if (reading->when[i] == life && (reading->last[i] != 0 || log->head->is_late == 0)) {
            tail += p->stamped[p->count] - p->stamped[reading->last[i]];
        }
    }
    const bool is_whole = life == 0 && log->head->is_late == 0;
    uint64_t most = sum.all_ended ? sum.accepted : sum.posted;
    if (is_whole && (got < sum.accepted || (the_check.restarts == 0 && got > most))) {
        wrong("%s: topic %u: %" PRIu64 " received and %" PRIu64 " lost of %" PRIu64
              " accepted, %" PRIu64 " posted",
              log->path, topic, reading->received, reading->lost, sum.accepted, sum.posted);
    }
    if (the_check.restarts == 0 && reading->seq != 0 && reading->seq != the_check.tops[topic]) {
        wrong("%s: topic %u: ends with seq %" PRIu64 ", another's with %" PRIu64, log->path, topic,
              reading->seq, the_check.tops[topic]);
    }
    /* The numbers that are missing, tiny messages aside, are some of the lost ones. */
    if (sum.all_ended && (the_check.restarts != 0 || sum.accepted == sum.posted) &&
        reading->missing + tail > reading->lost) {
        wrong("%s: topic %u: %" PRIu64 " numbers are missing, %" PRIu64 " reported lost", log->path,
              topic, reading->missing + tail, reading->lost);
    }
}

void read_subscriber(const struct log *log)
{
    struct subscription subs[DELIVERY_GROUPS] = {{0}};
    struct reading *readings = must(calloc(DELIVERY_TOPICS, sizeof(*readings)));
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        readings[t].last = must(calloc(the_check.publisher_count + 1, sizeof(uint64_t)));
        readings[t].when = must(calloc(the_check.publisher_count + 1, sizeof(uint64_t)));
    }
    for (uint64_t i = 0; i < log->count; i++) {
        if (is_received(&log->records[i])) {
            read_received(log, readings, subs, &log->records[i]);
        }
    }
    if (!log->has_ended && !the_check.is_killed) {
        wrong("%s: its subscriber did not end as it should", log->path);
    }
    for (uint32_t t = 0; t < DELIVERY_TOPICS; t++) {
        if (log->has_ended && has_topic(log, t)) {
            judge_whole(log, t, &readings[t], subs[t / GROUP_TOPICS].life);
        }
        the_check.sums.received += readings[t].received;
        the_check.sums.lost += readings[t].lost;
        free(readings[t].last);
        free(readings[t].when);
    }
    free(readings);
}
