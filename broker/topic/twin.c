/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/twin.h"

#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/topic.h"
#include "wire/base/log.h"
#include "wire/codec/frame.h"

#include <inttypes.h>
#include <string.h>

/* Records, then the blobs, as a body of its own has them. */
static void twin_write_meta(const struct amb_entry *from, uint8_t *to)
{
    size_t table = from->count * sizeof(struct amb_record);
    size_t offsets = from->count * sizeof(uint64_t);
    memcpy(to, from->meta, table);
    memcpy(to + table, from->meta + table + offsets, from->meta_len - table - offsets);
}

static struct amb_entry *twin_create(struct amb_shard *shard, struct amb_entry *entry)
{
    struct amb_entry *twin = amb_pool_get(&shard->entries.pool);
    if (twin == NULL) {
        return NULL;
    }
    uint32_t meta_len = entry->meta_len - entry->count * (uint32_t)sizeof(uint64_t);
    shard->reclaim.spared = amb_shard_topic(shard, entry->topic); /* Its log is being read. */
    enum amb_status status = amb_reclaim_alloc(shard, amb_shard_pool(shard, entry->is_private),
                                               entry->data_len + meta_len, &twin->payload.buf);
    shard->reclaim.spared = NULL;
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
    twin->is_private = entry->is_private;
    amb_entry_in_buffer(twin, AMB_PAYLOAD_BUFFER);
    twin->first_seq = entry->first_seq;
    twin->above = entry->above;
    twin->time_ns = entry->time_ns;
    twin_write_meta(entry, twin->payload.buf.data + entry->data_len);
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

/* At the borrower: home has answered. */
static void twin_lent(struct amb_mail *mail, void *owner)
{
    struct amb_entry *shadow = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    shadow->twin_state = shadow->twin != NULL           ? AMB_TWIN_READY
                         : shadow->status == AMB_ENOMEM ? AMB_TWIN_NO_MEMORY
                                                        : AMB_TWIN_FAILED;
    twin_settled(owner, shadow);
}

/* At home: answers a borrower whose shadow is of an entry whose twin is ready or has failed. */
static void twin_lend(struct amb_shard *home, struct amb_shard *borrower, struct amb_entry *shadow)
{
    const struct amb_entry *entry = shadow->parent;
    struct amb_entry *copy =
        entry->twin_state == AMB_TWIN_READY ? amb_pool_get(&home->entries.pool) : NULL;
    if (copy != NULL) {
        amb_entry_describe(copy, entry->twin);
        copy->home = home;
        copy->parent = entry->twin;
        amb_entry_ref(entry->twin);
    }
    shadow->twin = copy;
    shadow->status = entry->twin_state == AMB_TWIN_FAILED ? AMB_ECUDA : AMB_ENOMEM;
    amb_mail_post(&borrower->inbox, &shadow->mail, twin_lent);
}

/* Answers those who have asked meanwhile. */
static void twin_lend_all(struct amb_shard *home, struct amb_entry *entry)
{
    while (entry->twin_wanted != NULL) {
        struct amb_entry *shadow = entry->twin_wanted;
        entry->twin_wanted = shadow->twin_wanted;
        shadow->twin_wanted = NULL;
        twin_lend(home, shadow->twin_for, shadow);
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
    amb_stat_add(twin->status == AMB_OK ? &shard->stats.twins : &shard->stats.twins_failed, 1);
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

/* On the copier. Of both entries it reads only what stays as it is. */
static void twin_copy(struct amb_mail *mail, void *owner)
{
    struct amb_entry *twin = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    const struct amb_entry *entry = twin->twin;
    const uint64_t *offsets = amb_leased_offsets(entry->meta, entry->count);
    const struct amb_record *records = amb_entry_records(entry);
    uint8_t *to = twin->payload.buf.data;
    for (uint32_t i = 0; i < entry->count; i++) {
        uint64_t padded = amb_payload_padded(records[i].len);
        amb_gpu_pool_read(owner, to, (uintptr_t)entry->data + offsets[i], records[i].len);
        memset(to + records[i].len, 0, padded - records[i].len);
        to += padded;
    }
    amb_gpu_pool_read_end(owner, twin, twin_copied);
}

struct amb_entry *amb_twin_get(struct amb_shard *shard, struct amb_entry *entry)
{
    if (entry->twin_state == AMB_TWIN_READY) {
        return entry->twin;
    }
    if (entry->twin_state != AMB_TWIN_NONE && entry->twin_state != AMB_TWIN_NO_MEMORY) {
        return NULL;
    }
    /* A dead letter has a parent too, and is another message than that. */
    if (entry->parent != NULL && entry->meta == entry->parent->meta) {
        /* The mail is its own: it cannot go home before it is answered. */
        entry->twin_state = AMB_TWIN_COMING;
        entry->twin_for = shard;
        amb_entry_ref(entry);
        amb_mail_post(&entry->home->inbox, &entry->mail, twin_asked);
        return NULL;
    }
    entry->twin = twin_create(shard, entry);
    if (entry->twin == NULL) {
        amb_debug("no memory for a host copy of %" PRIu64 " bytes", entry->data_len);
        entry->twin_state = AMB_TWIN_NO_MEMORY;
        amb_stat_add(&shard->stats.twins_failed, 1);
        return NULL;
    }
    entry->twin_state = AMB_TWIN_COMING;
    entry->twin->twin = entry;
    amb_entry_ref(entry);
    amb_gpu_pool_post(entry->segment->gpu, &entry->twin->mail, twin_copy);
    return NULL;
}
