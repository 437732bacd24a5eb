/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/ingest.h"

#include "broker/base/fault.h"
#include "broker/ingest/commit.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_buffer.h"
#include "broker/ingest/route.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/gpuslot.h"
#include "broker/shard/purse.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/shard/trace.h"
#include "broker/topic/leased_copy.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <string.h>

/* Batches of so many show a stream that is not about the next message. */
#define INGEST_BULK_MSGS 32u

/* Bodies that are whole behind one that is not. */
static __attribute__((noinline)) void ingest_trace_waiting(const struct amb_publisher *publisher)
{
    AMB_LIST_FOR_EACH (node, &publisher->pending) {
        const struct amb_entry *entry = AMB_CONTAINER_OF(node, struct amb_entry, pending);
        if (entry->is_whole && entry->trace != 0) {
            amb_trace_body(publisher->session->shard, entry);
        }
    }
}

/* Somebody wants to know what becomes of it: its publisher, or a trace. */
static __attribute__((noinline)) void ingest_ask(struct amb_publisher *publisher,
                                                 struct amb_entry *entry)
{
    struct amb_shard *shard = publisher->session->shard;
    uint32_t ticket = amb_trace_ticket(shard, entry);
    bool is_traced = ticket != 0;
    if (publisher->confirms) {
        amb_tally_make(shard, entry, is_traced ? amb_route_traced_confirmed : amb_route_confirmed);
    } else if (is_traced && entry->status == AMB_OK) {
        is_traced = amb_tally_try(shard, entry, amb_route_traced);
        if (!is_traced) {
            amb_trace_missed(shard, ticket);
        }
    }
    if (is_traced) {
        amb_trace_routed(shard, entry, ticket);
    }
    publisher->asks = publisher->confirms || shard->trace.count > 0;
}

/* Sends on whatever is whole at the head of the publisher's line. */
static void ingest_drain(struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    while (!amb_list_is_empty(&publisher->pending)) {
        struct amb_entry *entry =
            AMB_CONTAINER_OF(publisher->pending.next, struct amb_entry, pending);
        if (!entry->is_whole) {
            if (__builtin_expect(publisher->asks, 0)) {
                ingest_trace_waiting(publisher);
            }
            return;
        }
        amb_list_remove(&entry->pending);
        entry->time_ns = shard->real_ns;
        if (publisher->seq != NULL) {
            *publisher->seq += AMB_FAULT(DEDUP_FORGETS) ? entry->count / 2 : entry->count;
        }
        if (__builtin_expect(publisher->asks, 0)) {
            ingest_ask(publisher, entry);
        }
        amb_route(shard, entry, publisher->home);
    }
    amb_publisher_routed(publisher); /* It may be gone now. */
}

static struct amb_entry *ingest_entry(struct amb_publisher *publisher,
                                      const struct amb_frame *frame)
{
    struct amb_session *session = publisher->session;
    struct amb_entry *entry = amb_pool_get(&session->shard->entries.pool);
    if (entry == NULL) {
        return NULL;
    }
    entry->refs = 1;
    entry->home = session->shard;
    entry->count = frame->count;
    entry->meta_len = frame->meta_len;
    entry->data_len = frame->data_len;
    entry->topic = publisher->topic;
    entry->group = publisher->pool->options.group;
    amb_entry_share_take(session->entry_share, entry);
    entry->has_ttl = (frame->flags & AMB_FRAME_FLAG_TTL) != 0;
    entry->origin = (struct amb_origin){
        .session = session->index,
        .generation = session->generation,
        .handle = publisher->handle,
        .opened = publisher->opened,
        .batch = frame->seq,
    };
    amb_list_push_back(&publisher->pending, &entry->pending);
    if (__builtin_expect(session->shard->trace.count != 0, 0)) {
        publisher->asks = amb_trace_head(session->shard, entry) || publisher->asks;
    }
    return entry;
}

/* Refused, and said so, in its turn. */
static void ingest_refuse(struct amb_publisher *publisher, struct amb_entry *entry,
                          enum amb_status status)
{
    amb_debug("client %" PRIu64 ": a batch of %" PRIu64 " bytes is refused: %s",
              publisher->session->client_id, amb_entry_bytes(entry), amb_status_text(status));
    entry->status = status;
    entry->is_whole = true;
    ingest_drain(publisher);
}

/* Its memory, in a buffer, is its user's from here on. */
static void ingest_charge(struct amb_purse *purse, struct amb_entry *entry, uint64_t bytes)
{
    entry->purse = purse;
    entry->purse_bytes = bytes;
    amb_purse_hold(purse, bytes);
}

enum amb_status amb_ingest_head(struct amb_session *session, const struct amb_frame *frame,
                                void **dst, void **cookie, struct amb_link_mem **mem)
{
    struct amb_publisher *publisher = amb_session_publisher(session, frame->handle);
    if (publisher == NULL) {
        session->frames_ignored++; /* Closed while this was under way: its body is thrown away. */
        return AMB_OK;
    }
    enum amb_status status = amb_publisher_admit(publisher, frame);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_entry *entry = ingest_entry(publisher, frame);
    if (entry == NULL) {
        return AMB_ENOMEM;
    }
    entry->has_window = true;
    entry->is_of_gpu = (frame->flags & AMB_FRAME_FLAG_DEVICE) != 0;
    entry->expect = frame->number;
    status = session->shard->is_draining
                 ? AMB_ECLOSED
                 : amb_publisher_buffer(publisher, amb_entry_bytes(entry), &entry->payload.buf);
    if (status != AMB_OK) {
        ingest_refuse(publisher, entry, status);
        return AMB_OK;
    }
    amb_entry_in_buffer(entry, AMB_PAYLOAD_BUFFER);
    if (session->purse != NULL) {
        ingest_charge(session->purse, entry, entry->charge);
    }
    *dst = entry->payload.buf.data;
    *mem = entry->segment->mem;
    *cookie = entry;
    return AMB_OK;
}

/* Writes record, offset and blob as a leased batch's meta has them, and checks them. */
static enum amb_status device_meta(const struct amb_frame *frame, const uint8_t *meta, uint64_t len,
                                   struct amb_entry *entry)
{
    const uint64_t *offset = entry->payload.commit.offsets;
    uint8_t *to = entry->payload.buf.data;
    struct amb_record record;
    memcpy(&record, meta, sizeof(record));
    memcpy(to, &record, sizeof(record));
    amb_assert((const uint8_t *)offset == to + sizeof(record));
    memcpy(to + sizeof(record) + sizeof(*offset), meta + sizeof(record),
           frame->meta_len - sizeof(record));
    if (frame->meta_len > sizeof(record)) { /* As a delivery of its own has them. */
        memcpy(to + entry->meta_len, meta, frame->meta_len);
        entry->singles = to + entry->meta_len;
    }
    struct amb_frame leased = *frame;
    leased.type = AMB_FRAME_COMMIT;
    leased.flags = AMB_FRAME_FLAG_NONE;
    leased.meta_len += (uint32_t)sizeof(*offset);
    /* Bytes of the slot that are not fetched are those that somebody else left there. */
    return record.len <= len ? amb_leased_check(&leased, to, entry->segment->size) : AMB_EPROTO;
}

/* The entry has a slot, and the buffer that its meta is written to. */
static void device_place(struct amb_entry *entry, struct amb_segment_lease *lease)
{
    struct amb_payload *payload = &entry->payload;
    amb_gpuslot_take(lease, entry->data_len, &payload->commit,
                     (uint64_t *)(void *)(payload->buf.data + sizeof(struct amb_record)));
    entry->meta_len += (uint32_t)sizeof(uint64_t);
    amb_entry_in_slots(entry, AMB_PAYLOAD_LANDED, lease->segment, lease->slot);
}

enum amb_status amb_ingest_device(struct amb_session *session, const struct amb_frame *frame,
                                  const void *meta, uint64_t len, void **dst, void **cookie)
{
    struct amb_shard *shard = session->shard;
    struct amb_publisher *publisher = amb_session_publisher(session, frame->handle);
    if (frame->type != AMB_FRAME_BATCH || publisher == NULL || publisher->avoids_gpu ||
        shard->is_draining || !amb_publisher_may_send(publisher, frame)) {
        return AMB_ENOTSUP; /* Its faults are told as of any other. */
    }
    struct amb_segment_lease *lease = amb_gpuslot_find(shard, frame->data_len);
    if (lease == NULL ||
        (session->purse != NULL && !amb_purse_may_land(session->purse, lease->slot)) ||
        !amb_gpu_pool_claim(lease->segment->gpu, session->tenant)) {
        return AMB_ENOTSUP;
    }
    enum amb_status status = amb_publisher_admit(publisher, frame);
    struct amb_entry *entry = status == AMB_OK ? ingest_entry(publisher, frame) : NULL;
    if (entry == NULL) {
        return status != AMB_OK ? status : AMB_ENOMEM;
    }
    entry->has_window = true;
    entry->expect = frame->number;
    status = amb_publisher_buffer(publisher, 2 * frame->meta_len + sizeof(uint64_t),
                                  &entry->payload.buf);
    if (status != AMB_OK) {
        ingest_refuse(publisher, entry, status);
        return AMB_OK;
    }
    device_place(entry, lease);
    if (session->purse != NULL) {
        ingest_charge(session->purse, entry, entry->payload.buf.cap);
        amb_purse_land(session->purse, lease->slot);
    }
    if (device_meta(frame, meta, len, entry) != AMB_OK) {
        amb_list_remove(&entry->pending);
        amb_entry_give_up(entry, shard);
        return amb_session_broken(session, "a body that is not what its head says");
    }
    *dst = entry->segment->base + *entry->payload.commit.offsets;
    *cookie = entry;
    return AMB_OK;
}

static enum amb_status commit_violation(struct amb_session *session, const char *what)
{
    amb_warn("client %" PRIu64 ": a commit %s", session->client_id, what);
    amb_stat_add(&session->shard->stats->commits_refused, 1);
    return amb_session_broken(session, "a commit of what it may not commit");
}

enum amb_status amb_ingest_commit(struct amb_session *session, const struct amb_frame *frame,
                                  void **dst, void **cookie, struct amb_link_mem **mem)
{
    struct amb_publisher *publisher = amb_session_publisher(session, frame->handle);
    if (frame->number != session->book.committed + 1) {
        return commit_violation(session, "whose number is not expected");
    }
    if (publisher == NULL) { /* Closed while it was under way: its body is thrown away, */
        session->frames_ignored++;
        amb_commit_skip(&session->book); /* but it counts. */
        return AMB_OK;
    }
    struct amb_segment_lease *lease = amb_segment_lease_find(&session->book, frame->segment);
    if (lease == NULL || lease->state != AMB_LEASE_SEALED) {
        return commit_violation(session, "into a segment that it has not leased and mapped");
    }
    if (amb_publisher_admit_commit(publisher, frame) != AMB_OK) {
        return commit_violation(session, "that is not its publisher's next batch");
    }
    struct amb_entry *entry = ingest_entry(publisher, frame);
    if (entry == NULL) {
        return AMB_ENOMEM;
    }
    amb_commit_begin(&session->book, &entry->payload.commit, lease);
    entry->payload.kind = AMB_PAYLOAD_SLOTS; /* Refused, too: the commit counts. */
    enum amb_status status = frame->status != AMB_OK ? AMB_ECUDA /* Its payloads have failed. */
                             : session->shard->is_draining
                                 ? AMB_ECLOSED
                                 : amb_commit_alloc(publisher, amb_commit_buffer(frame), entry);
    if (status != AMB_OK) {
        ingest_refuse(publisher, entry, status);
        return AMB_OK;
    }
    if (session->purse != NULL && entry->payload.buf.segment != NULL) {
        ingest_charge(session->purse, entry, entry->payload.buf.cap); /* The slots are, already. */
    }
    entry->lease_user = publisher->lease_user;
    amb_entry_in_slots(entry, AMB_PAYLOAD_SLOTS, lease->segment, entry->data_len);
    *dst = entry->payload.buf.data;
    *mem = amb_payload_mem(&entry->payload);
    *cookie = entry;
    return AMB_OK;
}

static struct amb_publisher *ingest_publisher(struct amb_session *session,
                                              const struct amb_entry *entry)
{
    struct amb_publisher *publisher = amb_session_publisher(session, entry->origin.handle);
    return publisher != NULL && publisher->opened == entry->origin.opened ? publisher : NULL;
}

static enum amb_status ingest_check(struct amb_publisher *publisher, struct amb_entry *entry)
{
    struct amb_shard *shard = publisher->session->shard;
    if (amb_payload_is_landed(&entry->payload)) { /* Checked when it began to come. */
        return amb_gpu_pool_is_sound(entry->segment->gpu) ? AMB_OK : AMB_ECUDA;
    }
    if (entry->is_leased) {
        enum amb_status status = amb_commit_check(publisher, entry);
        amb_stat_add(
            status == AMB_EPROTO ? &shard->stats->commits_refused : &shard->stats->commits_in, 1);
        return status;
    }
    const struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .count = entry->count,
        .meta_len = entry->meta_len,
        .data_len = entry->data_len,
    };
    enum amb_status status = amb_body_check(&frame, entry->data);
    return status != AMB_EPROTO
               ? status
               : amb_session_broken(publisher->session, "a body that is not what its head says");
}

/* The way that it came, of payloads that lie, or lay, on a GPU. */
static __attribute__((noinline)) void ingest_count_gpu(struct amb_session *session,
                                                       const struct amb_entry *entry)
{
    bool is_landed = amb_payload_is_landed(&entry->payload);
    enum amb_path_way way = is_landed          ? AMB_PATH_COPIED
                            : entry->is_leased ? AMB_PATH_IN_PLACE
                                               : AMB_PATH_STAGED;
    amb_path_count(&session->paths.in, AMB_PATH_GPU, way,
                   is_landed ? AMB_PATH_BY_LINK : AMB_PATH_EAGER, entry->count,
                   amb_entry_bytes(entry), session->shard->now_ns);
}

/* The way that it came. */
static inline void ingest_count(struct amb_session *session, const struct amb_entry *entry)
{
    if (__builtin_expect(entry->is_of_gpu, 0)) {
        ingest_count_gpu(session, entry);
        return;
    }
    enum amb_path_class class = amb_path_class_of(entry->count, entry->data_len);
    enum amb_path_way way = AMB_PATH_COPIED;
    enum amb_path_why why = AMB_PATH_LINK;
    if (entry->is_leased) {
        way = AMB_PATH_IN_PLACE;
    } else if (entry->payload.kind == AMB_PAYLOAD_COPIED) {
        why = AMB_PATH_VERIFIED;
    } else if (session->may_map) {
        why = class == AMB_PATH_SMALL ? AMB_PATH_BATCH : AMB_PATH_UNLEASED;
    }
    amb_path_count(&session->paths.in, class, way, why, entry->count, amb_entry_bytes(entry),
                   session->shard->now_ns);
}

/* The entry is whole, or its status says why not. It goes on, or it never existed. */
static enum amb_status ingest_done(struct amb_publisher *publisher, struct amb_entry *entry,
                                   enum amb_status status)
{
    struct amb_session *session = publisher->session;
    if (status == AMB_ENOMEM || status == AMB_ECUDA || status == AMB_EREJECTED) {
        ingest_refuse(publisher, entry, status);
        return AMB_OK;
    }
    if (status != AMB_OK) {
        /* It never existed. The link goes down, and the client learns from that. */
        amb_list_remove(&entry->pending);
        amb_entry_give_up(entry, session->shard);
        return status == AMB_EPROTO ? AMB_EPROTO : AMB_OK;
    }
    entry->is_whole = true;
    session->shard->poll.is_bulk = entry->count >= INGEST_BULK_MSGS;
    amb_stat_add(&session->shard->stats->msgs_in, entry->count);
    amb_stat_add(&session->shard->stats->bytes_in, amb_entry_bytes(entry));
    amb_stat_add(&session->shard->stats->batches_in, 1);
    ingest_count(session, entry);
    ingest_drain(publisher);
    return AMB_OK;
}

enum amb_status amb_ingest_body(struct amb_session *session, void *cookie, enum amb_status status)
{
    struct amb_entry *entry = cookie;
    struct amb_publisher *publisher = ingest_publisher(session, entry);
    if (__builtin_expect(status != AMB_OK, 0) && amb_payload_is_landed(&entry->payload)) {
        amb_gpuslot_spoil(entry->payload.commit.lease);
    }
    if (publisher == NULL) {
        amb_entry_give_up(entry, session->shard);
        return AMB_OK;
    }
    if (__builtin_expect(status != AMB_OK, 0)) {
        return ingest_done(publisher, entry, status);
    }
    status = ingest_check(publisher, entry);
    return status == AMB_EAGAIN ? AMB_EAGAIN : ingest_done(publisher, entry, status);
}

enum amb_status amb_ingest_copy(struct amb_session *session, void *cookie)
{
    struct amb_entry *entry = cookie;
    struct amb_publisher *publisher = ingest_publisher(session, entry);
    enum amb_status status = amb_leased_copy_in(session->shard, entry);
    /* Where its records lay in the heap it has none yet. */
    struct amb_purse *purse = entry->purse != NULL ? entry->purse : session->purse;
    if (purse != NULL && status == AMB_OK) { /* It has memory of its own instead. */
        uint64_t before = entry->purse_bytes;
        ingest_charge(purse, entry, entry->charge);
        amb_purse_let_go(purse, before);
    }
    return ingest_done(publisher, entry, status);
}
