/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/commits.h"

#include "client/conn/conn.h"
#include "client/drive/wake.h"
#include "client/memory/slots.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define COMMITS_MIN UINT64_C(64)

enum amb_status amb_commits_reserve(struct amb_leases *leases)
{
    if (leases->commits != NULL && leases->said - leases->freed <= leases->mask) {
        return AMB_OK;
    }
    uint64_t capacity = leases->commits == NULL ? COMMITS_MIN : (leases->mask + 1) * 2;
    struct amb_commits_entry *commits = calloc(capacity, sizeof(*commits));
    if (commits == NULL) {
        return AMB_ENOMEM;
    }
    for (uint64_t n = leases->freed + 1; n <= leases->said; n++) {
        commits[n & (capacity - 1)] = leases->commits[n & leases->mask];
    }
    free(leases->commits);
    leases->commits = commits;
    leases->mask = capacity - 1;
    return AMB_OK;
}

uint64_t amb_commits_add(struct amb_leases *leases, struct amb_slots *slots, uint32_t head,
                         uint32_t taken)
{
    amb_assert(slots->taken >= taken && leases->commits != NULL);
    slots->taken -= taken;
    leases->said++;
    leases->commits[leases->said & leases->mask] =
        (struct amb_commits_entry){.slots = slots, .head = head};
    return leases->said;
}

static void free_slots(struct amb_leases *leases, struct amb_commits_entry *entry)
{
    struct amb_slots *slots = entry->slots;
    entry->slots = NULL;
    amb_slots_put_chain(leases, slots, entry->head);
}

enum amb_status amb_commits_freed(struct amb_conn *conn, uint64_t upto)
{
    struct amb_leases *leases = &conn->leases;
    if (upto > leases->said) {
        return AMB_EPROTO;
    }
    while (leases->freed < upto) {
        leases->freed++;
        struct amb_commits_entry *entry = &leases->commits[leases->freed & leases->mask];
        if (entry->slots != NULL) {
            free_slots(leases, entry);
        }
    }
    amb_conn_changed(conn);
    return AMB_OK;
}

enum amb_status amb_commits_freed_range(struct amb_conn *conn, uint64_t number, uint64_t count)
{
    struct amb_leases *leases = &conn->leases;
    if (number == 0 || number > leases->said || count > leases->said - number + 1) {
        return AMB_EPROTO;
    }
    /* The counter may have overtaken the frame. */
    uint64_t end = number + count;
    for (uint64_t n = number > leases->freed ? number : leases->freed + 1; n < end; n++) {
        struct amb_commits_entry *entry = &leases->commits[n & leases->mask];
        if (entry->slots != NULL) {
            free_slots(leases, entry);
        }
    }
    amb_conn_changed(conn);
    return AMB_OK;
}
