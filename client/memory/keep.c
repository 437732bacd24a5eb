/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/keep.h"

#include "client/conn/conn.h"
#include "client/memory/slots_private.h"
#include "wire/base/assert.h"

#include <stdlib.h>

static struct amb_keep *keep_get(struct amb_conn *conn)
{
    struct amb_keep *keep = conn->leases.unused_keeps;
    if (keep != NULL) {
        conn->leases.unused_keeps = keep->next;
        return keep;
    }
    return malloc(sizeof(*keep));
}

static void keep_put(struct amb_keep *keep)
{
    keep->next = keep->conn->leases.unused_keeps;
    keep->conn->leases.unused_keeps = keep;
}

void amb_keeps_fini(struct amb_conn *conn)
{
    while (conn->leases.unused_keeps != NULL) {
        struct amb_keep *keep = conn->leases.unused_keeps;
        conn->leases.unused_keeps = keep->next;
        free(keep);
    }
}

/* keep: of private memory, or an earlier one of a slot, which may be another's by now. */
static bool is_kept(const struct amb_place *place, const struct amb_keep *keep)
{
    const struct amb_slots *slots = place->slots;
    if (slots != NULL) {
        return slots->keep_count != 0 && slots->keeps[place->slot] != NULL;
    }
    return keep != NULL && !keep->is_unkept;
}

enum amb_status amb_keep_begin(struct amb_conn *conn, const struct amb_place *place, void *bytes,
                               uint64_t room, struct amb_keep **out)
{
    struct amb_slots *slots = place->slots;
    if (is_kept(place, *out)) {
        return AMB_ESTATE;
    }
    if (slots == NULL && *out != NULL) { /* It was unkept, and the lease is still out. */
        (*out)->is_unkept = false;
        return AMB_OK;
    }
    if (slots != NULL && slots->keeps == NULL) {
        slots->keeps = calloc(slots->count, sizeof(struct amb_keep *));
        if (slots->keeps == NULL) {
            return AMB_ENOMEM;
        }
    }
    struct amb_keep *keep = keep_get(conn);
    if (keep == NULL) {
        return AMB_ENOMEM;
    }
    *keep = (struct amb_keep){.conn = conn, .place = *place, .bytes = bytes, .room = room};
    if (slots != NULL) {
        slots->keeps[place->slot] = keep;
        slots->keep_count++;
    }
    *out = keep;
    return AMB_OK;
}

/* A slot that is not back goes on as one that was never kept. */
static void end_slot(struct amb_keep *keep)
{
    struct amb_slots *slots = keep->place.slots;
    slots->keeps[keep->place.slot] = NULL;
    slots->keep_count--;
    if (keep->is_back) {
        amb_place_return(&keep->place);
    } else {
        amb_slots_end(slots);
    }
    keep_put(keep);
}

void amb_keep_end(struct amb_keep *keep)
{
    if (keep->place.slots != NULL) {
        end_slot(keep);
    } else if (keep->is_back) {
        struct amb_conn *conn = keep->conn;
        void *bytes = keep->bytes;
        uint64_t room = keep->room;
        keep_put(keep);
        amb_keep_return(conn, NULL, bytes, room);
    } else {
        keep->is_unkept = true;
    }
}

bool amb_keep_holds(const struct amb_place *place)
{
    struct amb_keep *keep = place->slots->keeps[place->slot];
    if (keep == NULL || keep->is_back) {
        return false;
    }
    keep->is_back = true;
    return true;
}

uint32_t amb_keeps_sift(struct amb_slots *slots, uint32_t head)
{
    uint32_t rest = AMB_SLOT_NONE;
    for (uint32_t slot = head; slot != AMB_SLOT_NONE;) {
        const struct amb_place place = {.slots = slots, .slot = slot};
        slot = slots->next[slot];
        if (amb_keep_holds(&place)) {
            slots->next[place.slot] = AMB_SLOT_NONE;
            slots->taken++;
        } else {
            slots->next[place.slot] = rest;
            rest = place.slot;
        }
    }
    return rest;
}

void amb_keep_return(struct amb_conn *conn, struct amb_keep *keep, void *bytes, uint64_t room)
{
    if (keep != NULL && !keep->is_unkept) {
        keep->is_back = true;
        return;
    }
    if (keep != NULL) {
        keep_put(keep);
    }
    amb_buffers_put(&conn->leases.buffers, bytes, room);
    amb_leases_wake(conn);
}
