/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/session/session.h"

#include "broker/base/fault.h"
#include "broker/base/party.h"
#include "broker/base/trust_group.h"
#include "broker/config/config.h"
#include "broker/count/counters_slots.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"
#include "wire/link/link.h"

#include <fcntl.h>
#include <stdlib.h>

/* A client that holds so much in place may be the one that a publisher of leased memory waits
 * for. So may one that holds such a part of a lease's slots, however little is in them. */
#define SESSION_HELD_BYTES (UINT64_C(16) << 10)
#define SESSION_HELD_PARTS (AMB_SLOT_PARTS / 32)

enum amb_status amb_session_create(struct amb_shard *shard, uint32_t index, uint32_t generation,
                                   uint64_t secret, uint64_t client_id, struct amb_session **out)
{
    struct amb_session **cell = amb_shard_session_cell(shard, index);
    if (cell == NULL) {
        return AMB_ENOMEM;
    }
    amb_assert(*cell == NULL);
    struct amb_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return AMB_ENOMEM;
    }
    session->shard = shard;
    session->index = index;
    session->generation = generation;
    session->secret = secret;
    session->client_id = client_id;
    session->state = AMB_SESSION_OPEN;
    session->mapped_max = shard->limits->max_mapped_per_session;
    session->mapped_host_max = shard->config->memory.host.size / 2;
    amb_list_init(&session->stalled);
    amb_list_init(&session->lack.node);
    amb_list_init(&session->clearing);
    amb_sifter_init(&session->sifter);
    amb_list_init(&session->publisher_list);
    amb_list_init(&session->subscription_list);
    amb_list_init(&session->quarantined);
    amb_session_names_init(&session->names, &session->heap);
    amb_lease_book_init(&session->book, &session->heap);
    amb_heap_init(&session->heap, amb_heap_worker_share(shard->limits->max_heap_per_session));
    amb_heap_take(&session->heap, sizeof(*session) + AMB_HEAP_OVERHEAD);
    amb_list_push_back(&shard->sessions.live, &session->live);
    amb_list_push_back(&shard->poll.warm, &session->heat);
    shard->poll.warm_count++;
    *cell = session;
    *out = session;
    return AMB_OK;
}

/* Out of its list, which one it may be. */
static void leave_heat(struct amb_session *session)
{
    struct amb_shard_poll *poll = &session->shard->poll;
    amb_list_remove(&session->heat);
    if (!session->is_cold) {
        poll->warm_count--;
    } else if (session->is_dormant) {
        poll->dormant_count--;
    } else {
        poll->cold_count--;
        poll->cold_watched -= session->is_watched;
    }
}

void amb_session_destroy(struct amb_session **session)
{
    struct amb_session *s = *session;
    if (s == NULL) {
        return;
    }
    *session = NULL;
    amb_assert(s->link == NULL);
    amb_assert(amb_list_is_empty(&s->publisher_list));
    amb_assert(amb_list_is_empty(&s->subscription_list));
    amb_assert(amb_list_is_empty(&s->quarantined));
    amb_assert(s->tallies == 0);
    amb_counters_give_numbers(s->shard->counters, &s->counters_slot);
    amb_assert(amb_list_is_empty(&s->book.leases));
    amb_session_names_fini(&s->names);
    /* Cursors of its subscriptions that have not gone yet (sweep.h). */
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&s->stalled)) != NULL ||
           (node = amb_list_pop_front(&s->sifter.cursors)) != NULL) {
        amb_cursor_wake(AMB_CONTAINER_OF(node, struct amb_cursor, stalled));
    }
    amb_list_remove(&s->lack.node);
    amb_sifter_fini(&s->sifter);
    amb_prelude_forget(&s->prelude);
    amb_list_remove(&s->live);
    leave_heat(s);
    s->shard->sessions.at[s->index] = NULL;
    amb_heap_leave(&s->heap);
    if (s->purse != NULL) { /* Where there was no memory to quarantine it, something is left. */
        amb_purse_map(s->purse, UINT64_C(0) - s->mapped_bytes);
    }
    amb_purse_unref(&s->purse);
    amb_entry_share_close(&s->entry_share);
    amb_party_unref(&s->party);
    for (unsigned i = 0; i < AMB_HANDLES_MAX / AMB_HANDLES_EACH; i++) {
        free(s->handles[i]);
    }
    free(s);
}

void amb_session_warm(struct amb_session *session)
{
    amb_assert(session->is_cold);
    leave_heat(session);
    if (session->is_dormant && amb_session_is_up(session)) {
        amb_link_disarm(session->link);
    }
    session->is_cold = session->is_dormant = false;
    amb_list_push_back(&session->shard->poll.warm, &session->heat);
    session->shard->poll.warm_count++;
}

void amb_session_cool(struct amb_session *session)
{
    struct amb_shard_poll *poll = &session->shard->poll;
    amb_assert(!session->is_cold);
    leave_heat(session);
    session->is_cold = true;
    /* Any word of the peer's wakes it, for nobody looks again at what it waits for. */
    session->is_dormant =
        session->has_bell && amb_session_is_up(session) && amb_link_arm(session->link, true);
    if (session->is_dormant) {
        amb_list_push_back(&poll->dormant, &session->heat);
        poll->dormant_count++;
    } else {
        amb_list_push_back(&poll->cold, &session->heat);
        poll->cold_count++;
        poll->cold_watched += session->is_watched;
    }
}

bool amb_session_wants_flow(const struct amb_session *session)
{
    return !amb_list_is_empty(&session->publisher_list) || !amb_list_is_empty(&session->stalled) ||
           !amb_list_is_empty(&session->shard->windows.starving) || session->takers > 0 ||
           session->tallies > 0 || session->mapped_bytes >= SESSION_HELD_BYTES ||
           session->mapped_parts >= SESSION_HELD_PARTS;
}

void amb_session_flow(struct amb_session *session, enum amb_flow_kind kind, uint32_t handle,
                      uint64_t value)
{
    amb_session_stir(session);
    session->word.has_news = true;
    session->word.is_urgent = session->word.is_urgent || kind != AMB_FLOW_ACCEPTED;
    session->word.is_new = true;
    amb_link_flow(session->link, kind, handle, value);
}

struct amb_handles *amb_session_handles(struct amb_session *session, uint32_t handle)
{
    amb_assert(handle < AMB_HANDLES_MAX);
    struct amb_handles **handles = &session->handles[handle / AMB_HANDLES_EACH];
    if (*handles == NULL) {
        *handles = calloc(1, sizeof(**handles));
        if (*handles != NULL) {
            amb_heap_take(&session->heap, sizeof(**handles) + AMB_HEAP_OVERHEAD);
        }
    }
    return *handles;
}

enum amb_status amb_session_broken(struct amb_session *session, const char *why)
{
    session->broken = why;
    return AMB_EPROTO;
}

void amb_session_end_heap(struct amb_session *session)
{
    if (session->is_over_heap) {
        return;
    }
    session->is_over_heap = true;
    session->heap.refused++;
    session->shard->upcalls->session_ended(session->shard, session->client_id, AMB_ELIMIT,
                                           AMB_HEAP_KEY
                                           ": the client neither takes nor gives back");
}

struct amb_session *amb_session_find(struct amb_shard *shard, uint32_t index, uint32_t generation)
{
    if (index >= shard->sessions.cells || shard->sessions.at[index] == NULL ||
        shard->sessions.at[index]->generation != generation) {
        return NULL;
    }
    return shard->sessions.at[index];
}

bool amb_session_has_room(const struct amb_session *session)
{
    return amb_session_is_up(session) && session->link->queued < AMB_SESSION_QUEUED_MAX &&
           session->link->queued_bytes < AMB_SESSION_QUEUED_BYTES_MAX;
}

void amb_session_unstall(struct amb_session *session)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&session->stalled)) != NULL) {
        if (!AMB_FAULT(LOST_WAKEUP)) {
            amb_cursor_wake(AMB_CONTAINER_OF(node, struct amb_cursor, stalled));
        }
    }
}

_Static_assert(AMB_SESSION_SEGMENTS_MAX <= 256, "an index is a byte");

static struct amb_mapping *session_mapping_find(struct amb_session *session, uint64_t segment)
{
    /* Asked for each delivery; publishers that lease bring a segment or two each. */
    uint8_t *at = &session->mapping_at[segment % AMB_SESSION_SEGMENTS_MAX];
    if (*at < session->mapping_count && session->mappings[*at].segment == segment) {
        return &session->mappings[*at];
    }
    for (uint32_t i = 0; i < session->mapping_count; i++) {
        if (session->mappings[i].segment == segment) {
            *at = (uint8_t)i;
            return &session->mappings[i];
        }
    }
    return NULL;
}

/* A pool of GPU memory has no groups: it is shared as a whole, by those of one tenant that are
 * trusted. */
static bool may_map_group(const struct amb_session *session, const struct amb_segment *segment)
{
    return segment->gpu != NULL ? amb_gpu_pool_claim(segment->gpu, session->tenant)
                                : amb_trust_group_may_map(amb_segment_group(segment),
                                                          session->tenant, session->maps);
}

enum amb_mapping_state amb_session_mapping_of(struct amb_session *session,
                                              struct amb_segment *segment)
{
    struct amb_mapping *mapping = session_mapping_find(session, segment->id);
    if (mapping != NULL) {
        return mapping->state;
    }
    if (!may_map_group(session, segment) || session->mapping_count == AMB_SESSION_SEGMENTS_MAX) {
        return AMB_MAPPING_REFUSED;
    }
    if (segment->gpu != NULL) {
        if (!session->may_map_gpu || session->shard->upcalls->offer_gpu == NULL) {
            return AMB_MAPPING_REFUSED;
        }
        session->mappings[session->mapping_count++] =
            (struct amb_mapping){.segment = segment->id, .state = AMB_MAPPING_ASKED};
        session->shard->upcalls->offer_gpu(session->shard, session->client_id, segment);
        return AMB_MAPPING_ASKED;
    }
    /* Once a segment and session: the only system call between a publish and a delivery. */
    int fd = fcntl(segment->fd_ro, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return AMB_MAPPING_REFUSED; /* Asked again at the next delivery. */
    }
    session->mappings[session->mapping_count++] =
        (struct amb_mapping){.segment = segment->id, .state = AMB_MAPPING_ASKED};
    session->shard->upcalls->offer_segment(session->shard, session->client_id, segment->id,
                                           segment->size, fd);
    return AMB_MAPPING_ASKED;
}

void amb_session_mapping(struct amb_session *session, uint64_t segment,
                         enum amb_mapping_state state)
{
    struct amb_mapping *mapping = session_mapping_find(session, segment);
    if (mapping == NULL) {
        return; /* It was dropped meanwhile, or the client makes it up. */
    }
    if (mapping->state == AMB_MAPPING_RETIRED && state == AMB_MAPPING_REFUSED) {
        (void)amb_session_forget_segment(session, segment);
        return;
    }
    mapping->state = state;
}

bool amb_session_retire_segment(struct amb_session *session, uint64_t segment)
{
    struct amb_mapping *mapping = session_mapping_find(session, segment);
    if (mapping == NULL) {
        return false;
    }
    if (mapping->state == AMB_MAPPING_ASKED) {
        mapping->state = AMB_MAPPING_RETIRED;
        return false;
    }
    if (mapping->state == AMB_MAPPING_REFUSED) {
        (void)amb_session_forget_segment(session, segment);
        return false;
    }
    return mapping->state == AMB_MAPPING_READY;
}

bool amb_session_is_retired(struct amb_session *session, uint64_t segment)
{
    const struct amb_mapping *mapping = session_mapping_find(session, segment);
    return mapping != NULL && mapping->state == AMB_MAPPING_RETIRED;
}

void amb_session_unmapped(struct amb_session *session, uint64_t segment)
{
    struct amb_mapping *mapping = session_mapping_find(session, segment);
    if (mapping == NULL) {
        return; /* As it should be: it was told to drop it. */
    }
    if (mapping->state == AMB_MAPPING_RETIRED) {
        (void)amb_session_forget_segment(session, segment);
    } else {
        /* Each offer takes a descriptor, until the client reads it: one offer a segment. */
        mapping->state = AMB_MAPPING_REFUSED;
    }
}

bool amb_session_forget_segment(struct amb_session *session, uint64_t segment)
{
    struct amb_mapping *mapping = session_mapping_find(session, segment);
    if (mapping == NULL) {
        return false;
    }
    *mapping = session->mappings[--session->mapping_count];
    return true;
}
