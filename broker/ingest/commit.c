/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/commit.h"

#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/shard/entry.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/topic/reclaim.h"
#include "wire/base/log.h"
#include "wire/link/link.h"

#include <inttypes.h>
#include <string.h>

/* FREED frames that may wait in a link. */
#define COMMIT_FREED_QUEUED_MAX (AMB_SESSION_QUEUED_MAX / 2)

/* What comes ----------------------------------------------------------------------------------- */

static uint32_t blobs_len(const struct amb_frame *frame)
{
    return frame->meta_len -
           frame->count * (uint32_t)(sizeof(struct amb_record) + sizeof(uint64_t));
}

/* Behind the meta: records and blobs once more, each message's together. */
uint64_t amb_commit_buffer(const struct amb_frame *frame)
{
    uint32_t blobs = blobs_len(frame);
    return frame->meta_len +
           (blobs == 0 ? 0 : frame->count * sizeof(struct amb_record) + (uint64_t)blobs);
}

enum amb_status amb_commit_alloc(struct amb_publisher *publisher, uint64_t len,
                                 struct amb_entry *entry)
{
    struct amb_session *session = publisher->session;
    struct amb_shard *shard = session->shard;
    const struct amb_entry_claim claim = amb_publisher_entries_claim(publisher);
    enum amb_status status =
        amb_reclaim_alloc_granted(shard, publisher->pool, len, &claim, &entry->payload.buf);
    if (status != AMB_ENOMEM || amb_entry_share_is_used_up(shard, &claim)) {
        return status;
    }
    return amb_payload_alloc_heap(&entry->payload, shard, &session->heap, len);
}

static enum amb_status commit_refuse(const struct amb_publisher *publisher, const char *why)
{
    amb_warn("client %" PRIu64 ": publisher %u: a commit %s", publisher->session->client_id,
             publisher->handle, why);
    return amb_session_broken(publisher->session, "a commit of what it may not commit");
}

static enum amb_status commit_take_slots(const struct amb_publisher *publisher,
                                         struct amb_entry *entry)
{
    uint64_t max = publisher->session->shard->config->server.max_message;
    const uint64_t *offsets = amb_leased_offsets(entry->meta, entry->count);
    const struct amb_record *records = amb_entry_records(entry);
    entry->payload.commit.offsets = offsets;
    for (uint32_t i = 0; i < entry->count; i++) {
        if (records[i].len > max) {
            return commit_refuse(publisher, "has a message that is too large");
        }
        if (amb_commit_take(&entry->payload.commit, offsets[i],
                            amb_payload_padded(records[i].len)) != AMB_OK) {
            return commit_refuse(publisher, "names a slot that is not free, or none");
        }
    }
    return AMB_OK;
}

/* Lays out each message's record and blob as a body of its own has them: a copy is sent so. */
static void commit_make_singles(struct amb_entry *entry)
{
    uint8_t *to = entry->payload.buf.data + entry->meta_len;
    struct amb_body_iter iter;
    struct amb_message_view view;
    entry->singles = to;
    amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    for (uint32_t i = 0; amb_body_iter_next(&iter, &view); i++) {
        uint32_t padded = amb_props_padded(view.props_len);
        memcpy(to, entry->meta + i * sizeof(struct amb_record), sizeof(struct amb_record));
        memcpy(to + sizeof(struct amb_record), view.props, padded);
        to += sizeof(struct amb_record) + padded;
    }
}

enum amb_status amb_commit_check(struct amb_publisher *publisher, struct amb_entry *entry)
{
    const struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .count = entry->count,
        .meta_len = entry->meta_len,
        .data_len = entry->data_len,
    };
    if (amb_leased_check(&frame, entry->meta, entry->segment->size) != AMB_OK) {
        return commit_refuse(publisher, "is malformed");
    }
    enum amb_status status = commit_take_slots(publisher, entry);
    if (status == AMB_OK && entry->segment->gpu != NULL &&
        (publisher->verifies || !amb_gpu_pool_is_sound(entry->segment->gpu))) {
        /* Copies of GPU memory are not made here, and nothing is read of a device that is lost. */
        return publisher->verifies ? AMB_EREJECTED : AMB_ECUDA;
    }
    /* Readers of another group map that segment. */
    bool is_elsewhere = amb_segment_group(entry->segment) != publisher->group;
    if (status == AMB_OK && (publisher->verifies || ((publisher->copies || is_elsewhere) &&
                                                     entry->segment->gpu == NULL))) {
        return AMB_EAGAIN;
    }
    if (status == AMB_OK && blobs_len(&frame) > 0) {
        commit_make_singles(entry);
    }
    return status;
}

/* What goes ------------------------------------------------------------------------------------ */

static void commit_send_freed(struct amb_session *session, uint64_t number, uint32_t count)
{
    const struct amb_frame frame = {.type = AMB_FRAME_FREED, .number = number, .count = count};
    if (amb_outgoing_send(session, &frame, NULL, NULL, NULL) == AMB_ENOMEM) {
        session->shard->upcalls->session_ended(session->shard, session->client_id, AMB_ENOMEM,
                                               "the client could not be told of its free slots");
    }
}

/* Slots come back when there is room and the bill is over, as windows do. */
static bool is_late(struct amb_session *session)
{
    struct amb_shard *shard = session->shard;
    struct amb_lease_book *book = &session->book;
    enum amb_quota row = amb_purse_obstacle(session->purse, 1, shard->now_ns);
    bool was_late = book->is_late;
    book->is_late = row != AMB_QUOTA_COUNT;
    if (!book->is_late) {
        return false;
    }
    if (!was_late) {
        amb_purse_note_blocked(session->purse, row, shard->now_ns);
    }
    int64_t due_ns = shard->now_ns + AMB_RECLAIM_PAUSE_NS;
    if (due_ns < shard->poll.tell_due_ns) {
        shard->poll.tell_due_ns = due_ns;
    }
    return true;
}

void amb_commit_tell_news(struct amb_session *session)
{
    struct amb_lease_book *book = &session->book;
    if (__builtin_expect(session->purse != NULL, 0) && is_late(session)) {
        return;
    }
    uint64_t over = amb_lease_book_over(book);
    if (over > book->told) {
        book->told = over;
        amb_session_flow(session, AMB_FLOW_FREED, 0, over);
    }
    uint64_t number;
    uint32_t count;
    /* The rest when these are sent; by then the counter may speak for many of them. */
    while (session->link->queued < COMMIT_FREED_QUEUED_MAX &&
           amb_lease_book_next(book, &number, &count)) {
        commit_send_freed(session, number, count);
    }
    book->has_news = !amb_list_is_empty(&book->untold);
}
