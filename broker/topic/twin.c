/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/twin.h"

#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/topic.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/codec/frame.h"

#include <inttypes.h>
#include <string.h>

/* Of a log, asked for before its reader comes to them. */
#define REFUSED_MS 5u /* after home had no memory, a borrower asks again */
#define AHEAD_ENTRIES 64u
#define AHEAD_BYTES (2 * AMB_GATHER_CHUNK)

/* Records, then the blobs, as a body of its own has them. */
static void twin_write_meta(const struct amb_entry *from, uint8_t *to)
{
    size_t table = from->count * sizeof(struct amb_record);
    size_t offsets = from->count * sizeof(uint64_t);
    memcpy(to, from->meta, table);
    memcpy(to + table, from->meta + table + offsets, from->meta_len - table - offsets);
}

/* may_reclaim: others give up theirs for it. */
static enum amb_status twin_alloc(struct amb_shard *shard, const struct amb_entry *entry,
                                  uint64_t len, bool may_reclaim, struct amb_buf *out)
{
    struct amb_bufpool *pool = amb_shard_pool(shard, entry->group);
    if (!may_reclaim) {
        return amb_bufpool_alloc(pool, len, out);
    }
    shard->reclaim.spared = amb_shard_topic(shard, entry->topic); /* Its log is being read. */
    enum amb_status status = amb_reclaim_alloc(shard, pool, len, out);
    shard->reclaim.spared = NULL;
    return status;
}

static struct amb_entry *twin_create(struct amb_shard *shard, const struct amb_entry *entry,
                                     bool may_reclaim)
{
    struct amb_entry *twin = amb_pool_get(&shard->entries.pool);
    if (twin == NULL) {
        return NULL;
    }
    uint32_t meta_len = entry->meta_len - entry->count * (uint32_t)sizeof(uint64_t);
    enum amb_status status =
        twin_alloc(shard, entry, entry->data_len + meta_len, may_reclaim, &twin->payload.buf);
    if (status != AMB_OK) {
        amb_pool_put(&shard->entries.pool, twin);
        return NULL;
    }
    twin->refs = 1; /* entry's */
    twin->home = shard;
    twin->count = entry->count;
    twin->meta_len = meta_len;
    twin->data_len = entry->data_len;
    twin->topic = entry->topic;
    twin->group = entry->group;
    twin->is_of_gpu = true;
    amb_entry_in_buffer(twin, AMB_PAYLOAD_BUFFER);
    twin->first_seq = entry->first_seq;
    twin->above = entry->above;
    twin->time_ns = entry->time_ns;
    twin_write_meta(entry, twin->payload.buf.data + entry->data_len);
    amb_entry_charge_copy(twin, entry);
    return twin;
}

/* Its readers are walked again. */
static void twin_settled(struct amb_shard *shard, struct amb_entry *entry)
{
    struct amb_topic *topic = amb_shard_topic(shard, entry->topic);
    if (topic != NULL) {
        amb_topic_mark_all(topic);
    }
    amb_entry_unref(entry, shard); /* It was kept meanwhile. */
}

/* Of the shard's clock; it comes round in a minute. */
static uint16_t ms_of(const struct amb_shard *shard)
{
    return (uint16_t)(shard->now_ns / AMB_NS_PER_MS);
}

/* At the borrower: home has answered. */
static void twin_lent(struct amb_mail *mail, void *owner)
{
    struct amb_entry *shadow = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    shadow->twin_state = shadow->twin != NULL           ? AMB_TWIN_READY
                         : shadow->status == AMB_ENOMEM ? AMB_TWIN_NO_MEMORY
                         : shadow->status == AMB_EAGAIN ? AMB_TWIN_NOT_AHEAD
                                                        : AMB_TWIN_FAILED;
    shadow->twin_refused_ms = ms_of(owner);
    twin_settled(owner, shadow);
}

/* At home: answers a borrower whose shadow is of an entry whose twin is ready, or there is none.
 * is_ahead: it was asked for ahead, so no memory is no answer yet. */
static void twin_lend(struct amb_shard *home, struct amb_shard *borrower, struct amb_entry *shadow,
                      bool is_ahead)
{
    const struct amb_entry *entry = shadow->parent;
    struct amb_entry *copy =
        entry->twin_state == AMB_TWIN_READY ? amb_entry_lend(entry->twin, home) : NULL;
    shadow->twin = copy;
    shadow->status = entry->twin_state == AMB_TWIN_FAILED ? AMB_ECUDA
                     : copy == NULL && is_ahead           ? AMB_EAGAIN
                                                          : AMB_ENOMEM;
    amb_mail_post(&borrower->inbox, &shadow->mail, twin_lent);
}

/* Answers those who have asked meanwhile. */
static void twin_lend_all(struct amb_shard *home, struct amb_entry *entry)
{
    while (entry->twin_wanted != NULL) {
        struct amb_entry *shadow = entry->twin_wanted;
        entry->twin_wanted = shadow->twin_wanted;
        shadow->twin_wanted = NULL;
        twin_lend(home, shadow->twin_for, shadow, false);
    }
}

/* At home: a borrower wants it. */
static void twin_asked(struct amb_mail *mail, void *owner)
{
    struct amb_entry *shadow = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    struct amb_entry *entry = shadow->parent;
    (void)amb_twin_get(owner, entry);
    shadow->twin_wanted = entry->twin_wanted;
    entry->twin_wanted = shadow;
    if (entry->twin_state != AMB_TWIN_COMING) {
        twin_lend_all(owner, entry);
    }
}

/* On the worker that has it made. */
static void twin_came(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_entry *twin = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    struct amb_entry *entry = twin->twin;
    twin->twin = NULL;
    entry->twin_state = twin->status == AMB_OK ? AMB_TWIN_READY : AMB_TWIN_FAILED;
    amb_stat_add(twin->status == AMB_OK ? &shard->stats->twins : &shard->stats->twins_failed, 1);
    twin_lend_all(shard, entry);
    twin_settled(shard, entry);
}

/* On the copier. */
static void twin_copied(void *copy, enum amb_status status)
{
    struct amb_entry *twin = copy;
    twin->status = status;
    amb_mail_post(&twin->home->inbox, &twin->mail, twin_came);
}

/* Of both entries the copier reads only what stays as it is. */
static void twin_copy_one(struct amb_entry *twin, struct amb_gpu_pool *pool)
{
    const struct amb_entry *entry = twin->twin;
    const uint64_t *offsets = amb_leased_offsets(entry->meta, entry->count);
    const struct amb_record *records = amb_entry_records(entry);
    uint8_t *to = twin->payload.buf.data;
    for (uint32_t i = 0; i < entry->count; i++) {
        uint64_t padded = amb_payload_padded(records[i].len);
        amb_gpu_pool_read(pool, to, (uintptr_t)entry->data + offsets[i], records[i].len);
        memset(to + records[i].len, 0, padded - records[i].len);
        to += padded;
    }
    amb_gpu_pool_read_end(pool, twin, twin_copied);
}

/* On the copier: one and those behind it. */
static void twin_copy(struct amb_mail *mail, void *owner)
{
    struct amb_entry *twin = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    while (twin != NULL) {
        struct amb_entry *next = twin->twin_wanted; /* Until it ends it is ours. */
        twin->twin_wanted = NULL;
        twin_copy_one(twin, owner);
        twin = next;
    }
}

/* At home: makes it for the copier. False: no memory, or the broker ends, and the copiers have. */
static bool twin_begin(struct amb_shard *shard, struct amb_entry *entry, bool may_reclaim)
{
    entry->twin = shard->memory.gpus != NULL ? twin_create(shard, entry, may_reclaim) : NULL;
    if (entry->twin == NULL) {
        return false;
    }
    entry->twin_state = AMB_TWIN_COMING;
    entry->twin->twin = entry;
    amb_entry_ref(entry);
    return true;
}

/* Has the copier make the twins of a list, all at once. */
static void twins_ask(const struct amb_entry *entry, struct amb_entry *twins)
{
    amb_gpu_pool_post(entry->segment->gpu, &twins->mail, twin_copy);
}

/* Of another worker's log. A dead letter has a parent too, and is another message than that. */
static bool is_borrowed(const struct amb_entry *entry)
{
    return entry->parent != NULL && entry->meta == entry->parent->meta;
}

struct amb_entry *amb_twin_get(struct amb_shard *shard, struct amb_entry *entry)
{
    if (entry->twin_state == AMB_TWIN_READY) {
        return entry->twin;
    }
    if (entry->twin_state == AMB_TWIN_COMING || entry->twin_state == AMB_TWIN_FAILED) {
        return NULL;
    }
    if (is_borrowed(entry)) {
        /* Those who waited for home's answer lose the batch, as at home. They come right behind it,
         * and do not ask again. */
        if (entry->twin_state == AMB_TWIN_NO_MEMORY &&
            (uint16_t)(ms_of(shard) - entry->twin_refused_ms) < REFUSED_MS) {
            return NULL;
        }
        /* The mail is its own: it cannot go home before it is answered. */
        entry->twin_state = AMB_TWIN_COMING;
        entry->twin_for = shard;
        amb_entry_ref(entry);
        amb_mail_post(&entry->home->inbox, &entry->mail, twin_asked);
        return NULL;
    }
    if (!twin_begin(shard, entry, true)) {
        amb_debug("no memory for a host copy of %" PRIu64 " bytes", entry->data_len);
        entry->twin_state = AMB_TWIN_NO_MEMORY;
        amb_stat_add(&shard->stats->twins_failed, 1);
        return NULL;
    }
    twins_ask(entry, entry->twin);
    return NULL;
}

/* At home: a borrower asks ahead for a list. Where there is no memory its reader asks again when it
 * comes to the batch. */
static void ahead_asked(struct amb_mail *mail, void *owner)
{
    struct amb_entry *shadow = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    struct amb_entry *twins = NULL, **last = &twins;
    while (shadow != NULL) {
        struct amb_entry *next = shadow->twin_wanted, *entry = shadow->parent;
        shadow->twin_wanted = NULL;
        if (entry->twin_state == AMB_TWIN_NONE && twin_begin(owner, entry, false)) {
            *last = entry->twin;
            last = &entry->twin->twin_wanted;
        }
        if (entry->twin_state == AMB_TWIN_COMING) {
            shadow->twin_wanted = entry->twin_wanted;
            entry->twin_wanted = shadow;
        } else {
            twin_lend(owner, shadow->twin_for, shadow, true);
        }
        shadow = next;
    }
    if (twins != NULL) {
        twins_ask(twins->twin, twins);
    }
}

/* A run of a log behind one of its positions. */
struct ahead {
    struct amb_shard *shard;
    const struct amb_log *log;
    const struct amb_entry *first; /* at that position */
    uint64_t next, end;            /* positions */
    uint64_t msgs, bytes;          /* that may still come in */
    struct amb_entry *asked, **last;
};

/* The next batch, if it is on the same GPU, of the same home, and within the bounds; else NULL. */
static struct amb_entry *ahead_next(const struct ahead *ahead)
{
    if (ahead->next == ahead->end) {
        return NULL;
    }
    struct amb_entry *entry = amb_log_at(ahead->log, ahead->next);
    const struct amb_entry *first = ahead->first;
    bool is_alike = entry->is_leased && entry->segment->gpu == first->segment->gpu &&
                    is_borrowed(entry) == is_borrowed(first) &&
                    (!is_borrowed(entry) || entry->home == first->home);
    return is_alike && entry->count <= ahead->msgs && entry->data_len <= ahead->bytes ? entry
                                                                                      : NULL;
}

static void ahead_step(struct ahead *ahead, const struct amb_entry *entry)
{
    ahead->next++;
    ahead->msgs -= entry->count;
    ahead->bytes -= entry->data_len;
}

/* Its twin is one of those that are asked for: at home the twin is in the list, else the shadow.
 * False: no memory. */
static bool ahead_add(struct ahead *ahead, struct amb_entry *entry)
{
    struct amb_entry *asked = entry;
    if (is_borrowed(entry)) {
        entry->twin_state = AMB_TWIN_COMING;
        entry->twin_for = ahead->shard;
        amb_entry_ref(entry);
    } else if (twin_begin(ahead->shard, entry, false)) {
        asked = entry->twin;
    } else {
        return false;
    }
    *ahead->last = asked;
    ahead->last = &asked->twin_wanted;
    return true;
}

void amb_twin_ahead(struct amb_topic *topic, uint64_t position, uint64_t msgs, uint64_t bytes)
{
    const struct amb_log *log = &topic->log;
    struct ahead ahead = {.shard = topic->shard,
                          .log = log,
                          .first = amb_log_at(log, position),
                          .next = position + 1,
                          .end = position + 1 + AHEAD_ENTRIES,
                          .msgs = msgs,
                          .bytes = bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES,
                          .last = &ahead.asked};
    uint64_t most = ahead.bytes;
    struct amb_entry *entry;
    ahead.end = ahead.end < log->hi ? ahead.end : log->hi;
    while ((entry = ahead_next(&ahead)) != NULL && entry->twin_state != AMB_TWIN_NONE) {
        ahead_step(&ahead, entry);
    }
    /* Many at once: else they would be copied one by one. */
    if (ahead.next - position > AHEAD_ENTRIES / 2 || ahead.bytes < most / 2) {
        return;
    }
    while ((entry = ahead_next(&ahead)) != NULL && entry->twin_state == AMB_TWIN_NONE &&
           ahead_add(&ahead, entry)) {
        ahead_step(&ahead, entry);
    }
    if (ahead.asked != NULL && is_borrowed(ahead.first)) {
        amb_mail_post(&ahead.first->home->inbox, &ahead.asked->mail, ahead_asked);
    } else if (ahead.asked != NULL) {
        twins_ask(ahead.asked->twin, ahead.asked);
    }
}
