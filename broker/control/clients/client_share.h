/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's share: the party and the user that are charged for it, the bytes that its session may
 * hold in place, and GPU memory.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/clients/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the party that is charged for the client, and counts the session. leaving: sessions of the
 * client that are still counted and as good as gone. ENOMEM, EBUSY, with the reason in why. */
AMB_MUST_CHECK enum amb_status amb_client_take_party(struct amb_client *client, uint32_t leaving,
                                                     char *why, size_t size);
/* The client has a subscription more, or less (-1). */
void amb_client_count_sub(struct amb_client *client, int change);
/* The end of a client: nothing is charged for it any more. Harmless without a party. */
void amb_client_leave_party(struct amb_client *client);
/* So many bytes of it are in quarantine, or may be by now. */
void amb_client_charge(struct amb_client *client, uint64_t bytes);
/* Bytes that a session may hold in place. Quarantine counts: of its process, and of its user's
 * other processes. */
uint64_t amb_client_mapped_max(const struct amb_client *client);

/* In place only where we shall see the end of the process that reads, or writes, there. */
static inline bool amb_client_may_map(const struct amb_client *client)
{
    return client->link == AMB_LINK_RING && client->knows_process;
}
/* The trust groups of its tenant whose memory it may map, a bit each: its rights cover them. */
uint64_t amb_client_maps(const struct amb_client *client);
/* May it map GPU memory? It is trusted with all of a pool then, which is mapped writable. */
bool amb_client_may_map_gpu(const struct amb_client *client);
/* Why it may lease no GPU memory; static; NULL: it may. */
const char *amb_client_gpu_obstacle(const struct amb_client *client);
