/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/session/quarantine.h"

#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <stdlib.h>

void amb_quarantine_take(struct amb_session *session, struct amb_entry *entry)
{
    struct amb_quarantined *held = malloc(sizeof(*held));
    if (held == NULL) {
        /* Never reuse what a process may still read: the reference stays until the broker ends. */
        amb_error("client %" PRIu64 ": no memory to note a quarantined delivery",
                  session->client_id);
        return;
    }
    held->entry = entry;
    amb_list_push_back(&session->quarantined, &held->node);
    amb_stat_add(&session->shard->stats->quarantined_bytes, amb_entry_charge(held->entry));
}

void amb_quarantine_begin(struct amb_session *session)
{
    amb_lease_book_end(&session->book, session->keep_held);
    amb_stat_add(&session->shard->stats->quarantined_bytes,
                 amb_lease_book_quarantined(&session->book));
}

uint64_t amb_quarantine_bytes(const struct amb_session *session)
{
    return amb_lease_book_quarantined(&session->book) +
           (amb_list_is_empty(&session->quarantined) ? 0 : session->mapped_bytes);
}

bool amb_quarantine_release(struct amb_session *session, unsigned budget)
{
    uint64_t bytes = 0;
    struct amb_list_node *node = NULL;
    while (budget-- > 0 && (node = amb_list_pop_front(&session->quarantined)) != NULL) {
        struct amb_quarantined *held = AMB_CONTAINER_OF(node, struct amb_quarantined, node);
        bytes += amb_entry_charge(held->entry);
        amb_entry_unref(held->entry, session->shard);
        free(held);
    }
    bool is_done = amb_list_is_empty(&session->quarantined);
    if (is_done) {
        if (session->purse != NULL) {
            amb_purse_map(session->purse, UINT64_C(0) - session->mapped_bytes);
        }
        session->mapped_bytes = session->mapped_host_bytes = 0;
        bytes += amb_lease_book_quarantined(&session->book);
        amb_lease_book_release(&session->book);
    }
    /* Modulo 2^64 this is a subtraction. */
    amb_stat_add(&session->shard->stats->quarantined_bytes, UINT64_C(0) - bytes);
    return is_done;
}
