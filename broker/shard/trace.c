/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/trace.h"

#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define TOPIC_WORDS (AMB_TOPIC_CELLS_MAX / 64)
#define STANDING_LOOKS 64u  /* cells that a search looks at */
#define BODY_OF UINT64_MAX  /* a standing's reader: whether the body was noted */
#define TICKET_MASK 0xffffu /* of it, an entry has these bits */

/* ---- the control thread ---- */

struct amb_trace *amb_trace_create(const char *pattern, uint32_t tenant, uint32_t first,
                                   uint32_t batches, unsigned workers)
{
    amb_assert(workers <= AMB_SHARDS_MAX && batches <= AMB_TRACE_BATCHES_MAX);
    size_t len = strlen(pattern);
    struct amb_trace *trace = calloc(1, sizeof(*trace));
    if (trace == NULL || len > AMB_TOPIC_MAX) {
        free(trace);
        return NULL;
    }
    trace->first = first;
    trace->batches = batches;
    trace->tenant = tenant;
    trace->part_count = workers;
    trace->pattern_len = (uint32_t)len;
    memcpy(trace->pattern, pattern, len);
    trace->topics = calloc(TOPIC_WORDS, sizeof(*trace->topics));
    bool is_whole = trace->topics != NULL;
    for (unsigned i = 0; i < workers && is_whole; i++) {
        trace->parts[i] = malloc(sizeof(*trace->parts[i]));
        is_whole = trace->parts[i] != NULL;
        if (is_whole) { /* Each page is touched here, so that no worker waits for one. */
            memset(trace->parts[i], 0, sizeof(*trace->parts[i]));
        }
    }
    if (!is_whole) {
        amb_trace_destroy(&trace);
    }
    return trace;
}

void amb_trace_destroy(struct amb_trace **trace)
{
    struct amb_trace *t = *trace;
    *trace = NULL;
    if (t == NULL) {
        return;
    }
    for (unsigned i = 0; i < t->part_count; i++) {
        free(t->parts[i]);
    }
    free(t->topics);
    free(t);
}

void amb_trace_topic(struct amb_trace *trace, uint32_t id, uint32_t tenant, const char *name,
                     uint32_t name_len)
{
    uint32_t cell = amb_topic_cell(id);
    uint64_t bit = UINT64_C(1) << cell % 64;
    bool is_of = (trace->tenant == AMB_TENANT_ANY || trace->tenant == tenant) &&
                 amb_pattern_matches(trace->pattern, trace->pattern_len, name, name_len);
    if (is_of) {
        atomic_fetch_or_explicit(&trace->topics[cell / 64], bit, memory_order_relaxed);
    } else { /* A former topic in its place was. */
        atomic_fetch_and_explicit(&trace->topics[cell / 64], ~bit, memory_order_relaxed);
    }
}

/* ---- armed ---- */

bool amb_trace_arm(struct amb_shard *shard, struct amb_trace *trace)
{
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        if (shard->trace.armed[i] == NULL) {
            shard->trace.armed[i] = trace;
            shard->trace.count++;
            return true;
        }
    }
    return false;
}

static void look_again(struct amb_shard *shard)
{
    shard->trace.is_watching = false;
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        const struct amb_trace *trace = shard->trace.armed[i];
        shard->trace.is_watching = shard->trace.is_watching ||
                                   (trace != NULL && trace->parts[shard->index]->watch_end > 0);
    }
    amb_shard_observe_gate(&shard->observe, shard->trace.is_watching);
}

void amb_trace_disarm(struct amb_shard *shard, const struct amb_trace *trace)
{
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        if (shard->trace.armed[i] == trace) {
            shard->trace.armed[i] = NULL;
            shard->trace.count--;
        }
    }
    look_again(shard);
}

static struct amb_trace *trace_of(const struct amb_shard *shard, uint32_t ticket)
{
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        struct amb_trace *trace = shard->trace.armed[i];
        if (trace != NULL && ticket - trace->first < trace->batches) {
            return trace;
        }
    }
    return NULL;
}

struct amb_trace_part *amb_trace_part_of(const struct amb_shard *shard, uint32_t ticket)
{
    const struct amb_trace *trace = trace_of(shard, ticket);
    return trace == NULL ? NULL : trace->parts[shard->index];
}

static void count_lost(struct amb_trace_part *part)
{
    uint32_t lost = atomic_load_explicit(&part->lost, memory_order_relaxed);
    atomic_store_explicit(&part->lost, lost + 1, memory_order_relaxed);
}

void amb_trace_note(struct amb_shard *shard, uint32_t ticket, struct amb_trace_record record)
{
    const struct amb_trace *trace = trace_of(shard, ticket);
    if (trace == NULL) {
        return;
    }
    struct amb_trace_part *part = trace->parts[shard->index];
    uint32_t count = atomic_load_explicit(&part->count, memory_order_relaxed);
    if (count == AMB_TRACE_RECORDS_MAX) {
        count_lost(part);
        return;
    }
    record.at_ns = record.at_ns != 0 ? record.at_ns : shard->now_ns;
    record.batch = (uint16_t)(ticket - trace->first + 1);
    record.worker = (int8_t)shard->index;
    part->records[count] = record;
    atomic_store_explicit(&part->count, count + 1, memory_order_release);
}

/* ---- readers ---- */

static uint32_t standing_hash(uint32_t ticket, uint64_t reader)
{
    uint64_t hash = (reader ^ (uint64_t)ticket << 40) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 40);
}

struct amb_trace_standing *amb_trace_standing(struct amb_shard *shard, uint32_t ticket,
                                              uint64_t reader, uint64_t client, bool is_queue)
{
    struct amb_trace_part *part = amb_trace_part_of(shard, ticket);
    if (part == NULL) {
        return NULL;
    }
    uint32_t at = standing_hash(ticket, reader);
    for (uint32_t i = 0; i < STANDING_LOOKS; i++, at++) {
        struct amb_trace_standing *standing = &part->standings[at % AMB_TRACE_STANDINGS_MAX];
        if (standing->ticket == ticket && standing->reader == reader &&
            standing->is_queue == is_queue) {
            return standing;
        }
        if (standing->ticket == 0) {
            *standing = (struct amb_trace_standing){
                .ticket = ticket, .reader = reader, .client = client, .is_queue = is_queue};
            return standing;
        }
    }
    count_lost(part);
    return NULL;
}

void amb_trace_stand(struct amb_shard *shard, struct amb_trace_standing *standing, uint32_t topic,
                     enum amb_trace_stage stage, enum amb_trace_why why)
{
    bool is_end = stage == AMB_TRACE_LEFT_OUT || stage == AMB_TRACE_DROPPED;
    if (standing == NULL || standing->is_over ||
        (standing->stage == stage && standing->why == why)) {
        return;
    }
    standing->stage = (uint8_t)stage;
    standing->why = (uint8_t)why;
    standing->is_over = is_end;
    amb_trace_note(shard, standing->ticket,
                   (struct amb_trace_record){.stage = (uint8_t)stage,
                                             .why = (uint8_t)why,
                                             .topic = topic,
                                             .reader = standing->reader,
                                             .client = standing->client,
                                             .is_queue = standing->is_queue});
}

/* ---- batches ---- */

static bool is_traced(const struct amb_trace *trace, uint32_t topic)
{
    uint32_t cell = amb_topic_cell(topic);
    uint64_t bits = atomic_load_explicit(&trace->topics[cell / 64], memory_order_relaxed);
    return (bits >> cell % 64 & 1) != 0;
}

/* The next ticket; 0: all are taken. */
static uint32_t take_ticket(struct amb_trace *trace)
{
    uint32_t taken = atomic_load_explicit(&trace->taken, memory_order_relaxed);
    while (taken < trace->batches) {
        if (atomic_compare_exchange_weak_explicit(&trace->taken, &taken, taken + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return trace->first + taken;
        }
    }
    return 0;
}

bool amb_trace_head(struct amb_shard *shard, struct amb_entry *entry)
{
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        struct amb_trace *trace = shard->trace.armed[i];
        uint32_t ticket = trace != NULL && is_traced(trace, entry->topic) ? take_ticket(trace) : 0;
        if (ticket != 0) {
            entry->trace = (uint16_t)(ticket & TICKET_MASK);
            amb_trace_note(shard, ticket,
                           (struct amb_trace_record){.stage = AMB_TRACE_HEAD,
                                                     .topic = entry->topic,
                                                     .msgs = entry->count,
                                                     .bytes = amb_entry_bytes(entry)});
            return true;
        }
    }
    return false;
}

uint32_t amb_trace_ticket(const struct amb_shard *shard, const struct amb_entry *entry)
{
    for (unsigned i = 0; i < AMB_TRACES_MAX && entry->trace != 0; i++) {
        const struct amb_trace *trace = shard->trace.armed[i];
        if (trace != NULL) {
            uint16_t behind = (uint16_t)(entry->trace - (uint16_t)(trace->first & TICKET_MASK));
            if (behind < trace->batches) {
                return trace->first + behind;
            }
        }
    }
    return 0;
}

void amb_trace_body(struct amb_shard *shard, const struct amb_entry *entry)
{
    struct amb_trace_standing *standing =
        amb_trace_standing(shard, amb_trace_ticket(shard, entry), BODY_OF, 0, false);
    if (standing == NULL || standing->is_over) {
        return;
    }
    standing->is_over = true;
    amb_trace_note(shard, standing->ticket,
                   (struct amb_trace_record){.stage = AMB_TRACE_BODY,
                                             .topic = entry->topic,
                                             .msgs = entry->count,
                                             .bytes = amb_entry_bytes(entry)});
}

static void count_over(const struct amb_shard *shard, uint32_t ticket)
{
    struct amb_trace *trace = trace_of(shard, ticket);
    if (trace != NULL) {
        atomic_fetch_add_explicit(&trace->over, 1, memory_order_release);
    }
}

void amb_trace_missed(struct amb_shard *shard, uint32_t ticket)
{
    struct amb_trace_part *part = amb_trace_part_of(shard, ticket);
    if (part != NULL) {
        count_lost(part);
        count_over(shard, ticket);
    }
}

void amb_trace_refused(struct amb_shard *shard, const struct amb_entry *entry, uint32_t ticket)
{
    amb_trace_note(shard, ticket,
                   (struct amb_trace_record){.stage = AMB_TRACE_REFUSED,
                                             .topic = entry->topic,
                                             .msgs = entry->count,
                                             .status = (int32_t)entry->status});
    count_over(shard, ticket);
}

void amb_trace_routed(struct amb_shard *shard, struct amb_entry *entry, uint32_t ticket)
{
    if (entry->status != AMB_OK) {
        amb_trace_refused(shard, entry, ticket);
        return;
    }
    amb_trace_body(shard, entry);
    amb_trace_note(shard, ticket,
                   (struct amb_trace_record){
                       .stage = AMB_TRACE_ROUTED, .topic = entry->topic, .msgs = entry->count});
    entry->tally->ticket = ticket;
}

void amb_trace_appended(struct amb_topic *topic, struct amb_shard *shard,
                        const struct amb_entry *entry, uint64_t position, bool is_home)
{
    uint32_t ticket = entry->tally->ticket;
    struct amb_trace_part *part = amb_trace_part_of(shard, ticket);
    if (part == NULL) {
        return;
    }
    amb_trace_note(shard, ticket,
                   (struct amb_trace_record){.stage = is_home ? AMB_TRACE_APPENDED : AMB_TRACE_LENT,
                                             .topic = entry->topic,
                                             .msgs = entry->count,
                                             .readers = is_home ? entry->tally->readers : 0,
                                             .seq = entry->first_seq + entry->above});
    uint32_t at = 0;
    while (at < part->watch_end && part->watches[at].topic != NULL) {
        at++;
    }
    if (at == AMB_TRACE_WATCHES_MAX) {
        count_lost(part);
        return;
    }
    part->watches[at] =
        (struct amb_trace_watch){.topic = topic, .position = position, .ticket = ticket};
    part->watch_end = at == part->watch_end ? at + 1 : part->watch_end;
    shard->trace.is_watching = true;
    amb_shard_observe_gate(&shard->observe, true);
}

void amb_trace_unwatch(struct amb_shard *shard, const struct amb_topic *topic, uint32_t ticket)
{
    struct amb_trace_part *part = amb_trace_part_of(shard, ticket);
    if (part == NULL) {
        return;
    }
    for (uint32_t i = 0; i < part->watch_end; i++) {
        if (part->watches[i].topic == topic && part->watches[i].ticket == ticket) {
            part->watches[i].topic = NULL;
        }
    }
    while (part->watch_end > 0 && part->watches[part->watch_end - 1].topic == NULL) {
        part->watch_end--;
    }
    look_again(shard);
}

void amb_trace_over(struct amb_shard *shard, const struct amb_tally *tally)
{
    amb_trace_note(shard, tally->ticket,
                   (struct amb_trace_record){.stage = AMB_TRACE_OVER,
                                             .msgs = (uint32_t)tally->delivered,
                                             .readers = tally->readers,
                                             .seq = tally->first_seq});
    count_over(shard, tally->ticket);
}

/* ---- words ---- */

const char *amb_trace_stage_name(enum amb_trace_stage stage)
{
    static const char *const names[AMB_TRACE_STAGES] = {
        [AMB_TRACE_HEAD] = "head",          [AMB_TRACE_BODY] = "body",
        [AMB_TRACE_ROUTED] = "routed",      [AMB_TRACE_REFUSED] = "refused",
        [AMB_TRACE_APPENDED] = "appended",  [AMB_TRACE_LENT] = "lent",
        [AMB_TRACE_HELD] = "held",          [AMB_TRACE_WRITTEN] = "written",
        [AMB_TRACE_GIVEN] = "given",        [AMB_TRACE_BACK] = "given back",
        [AMB_TRACE_ACKED] = "acknowledged", [AMB_TRACE_LEFT_OUT] = "left out",
        [AMB_TRACE_DROPPED] = "dropped",    [AMB_TRACE_OVER] = "over",
    };
    return stage < AMB_TRACE_STAGES && names[stage] != NULL ? names[stage] : "";
}

const char *amb_trace_why_name(enum amb_trace_why why)
{
    static const char *const names[AMB_TRACE_WHYS] = {
        [AMB_TRACE_WHY_NONE] = "",           [AMB_TRACE_WHY_TURN] = "turn",
        [AMB_TRACE_WHY_CREDIT] = "credit",   [AMB_TRACE_WHY_LINK] = "link",
        [AMB_TRACE_WHY_LAZY] = "lazy",       [AMB_TRACE_WHY_FILTER] = "filter",
        [AMB_TRACE_WHY_PACE] = "pace",       [AMB_TRACE_WHY_PRIORITY] = "priority",
        [AMB_TRACE_WHY_HISTORY] = "history", [AMB_TRACE_WHY_STAGING] = "staging",
        [AMB_TRACE_WHY_MAPPING] = "mapping", [AMB_TRACE_WHY_MEMBERS] = "members",
        [AMB_TRACE_WHY_SLOW] = "slow",       [AMB_TRACE_WHY_LATEST] = "latest",
        [AMB_TRACE_WHY_TRIMMED] = "trimmed", [AMB_TRACE_WHY_EXPIRED] = "expired",
        [AMB_TRACE_WHY_PURGED] = "purged",   [AMB_TRACE_WHY_ENDED] = "ended",
        [AMB_TRACE_WHY_FAILED] = "failed",   [AMB_TRACE_WHY_GIVEN_UP] = "given up",
    };
    return why < AMB_TRACE_WHYS && names[why] != NULL ? names[why] : "";
}

const char *amb_trace_how_name(enum amb_trace_how how)
{
    static const char *const names[AMB_TRACE_HOWS] = {
        [AMB_TRACE_HOW_NONE] = "",     [AMB_TRACE_MAPPED] = "mapped", [AMB_TRACE_COPIED] = "copied",
        [AMB_TRACE_STAGED] = "staged", [AMB_TRACE_LAZY] = "lazy",
    };
    return how < AMB_TRACE_HOWS && names[how] != NULL ? names[how] : "";
}
