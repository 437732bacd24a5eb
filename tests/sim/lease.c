/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: a segment that a client writes, and the commits that name slots of it. A slot that is
 * said to be free is written over at once: a reader that still reads it is found out.
 *
 *   free ──(commit)──► taken by that number ──(FREED: a counter, or a range)──► free, spoilt
 */
#include "broker/shard/segment_lease.h"

#include "tests/sim/sim.h"
#include "wire/base/assert.h"

#include <inttypes.h>
#include <string.h>

#define OFFSET_SIZE ((uint32_t)sizeof(uint64_t))

void sim_lease_ask(struct sim *s, struct sim_client *client)
{
    struct sim_lease *lease = &client->lease;
    *lease = (struct sim_lease){.state = SIM_ASKED, .slots = 8 + sim_pick(s, SIM_SLOTS - 7)};
    sim_client_ask(s, client, SIM_ASK_LEASE, 0, lease->slots);
}

void sim_lease_opened(struct sim *s, struct sim_client *client, const struct sim_ask *answer)
{
    struct sim_lease *lease = &client->lease;
    SIM_CHECK(s,
              answer->status == AMB_OK || answer->status == AMB_ENOMEM ||
                  answer->status == AMB_ELIMIT || answer->status == AMB_ENOTSUP,
              "a lease is refused: %s", amb_status_text(answer->status));
    lease->state = answer->status == AMB_OK ? SIM_OPEN : SIM_CLOSED;
    lease->segment = answer->number;
}

/* Its commits have come, for all that its publishers were told. */
static bool commits_have_come(const struct sim_client *client)
{
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        const struct sim_publisher *p = &client->pubs[h];
        bool is_of_use = p->state == SIM_OPEN || p->state == SIM_CLOSING;
        if (is_of_use && p->accepted != p->batches) {
            return false;
        }
    }
    return true;
}

void sim_lease_close(struct sim *s, struct sim_client *client)
{
    if (commits_have_come(client)) {
        client->lease.state = SIM_CLOSED;
        sim_client_ask(s, client, SIM_ASK_LEASE_CLOSE, 0, client->lease.segment);
    }
}

/* Commits -------------------------------------------------------------------------------------- */

bool sim_lease_has_room(const struct sim_client *client, uint32_t count, uint64_t padded)
{
    const struct sim_lease *lease = &client->lease;
    uint32_t free_slots = 0;
    for (uint32_t i = 0; i < lease->slots; i++) {
        free_slots += lease->taken[i] == 0;
    }
    return lease->state == SIM_OPEN && !client->said_bye && padded <= SIM_SLOT &&
           free_slots >= count;
}

static uint64_t slot_take(struct sim *s, struct sim_client *client)
{
    struct sim_lease *lease = &client->lease;
    uint32_t at = sim_pick(s, lease->slots);
    while (lease->taken[at] != 0) {
        at = (at + 1) % lease->slots;
    }
    lease->taken[at] = client->commits;
    return at * SIM_SLOT;
}

static uint8_t *lease_base(const struct sim_client *client)
{
    uint64_t size;
    uint8_t *base = sim_segment_base(client->lease.segment, &size);
    SIM_CHECK(client->sim, base != NULL && size >= client->lease.slots * SIM_SLOT,
              "client %u: its lease is gone", client->slot);
    return base;
}

void sim_lease_commit(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_publisher *p = &client->pubs[handle];
    uint8_t *base = lease_base(client);
    uint32_t table = p->plan_count * (uint32_t)sizeof(struct amb_record);
    struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .flags = p->plan_ttl_ms != 0 ? AMB_FRAME_FLAG_TTL : 0,
        .handle = handle,
        .number = ++client->commits,
        .count = p->plan_count,
        .segment = client->lease.segment,
        .data_len = p->plan_count * amb_payload_padded(p->plan_len),
        .meta_len = table + p->plan_count * (OFFSET_SIZE + (p->plan_props ? SIM_PROPS : 0)),
    };
    struct sim_tx *tx = sim_tx_make(client, frame.meta_len);
    sim_publish_begin(s, client, handle, &frame);
    for (uint32_t i = 0; i < frame.count; i++) {
        struct amb_record record;
        uint64_t offset = slot_take(s, client);
        struct sim_stamp stamp = sim_publish_next(s, p, &record);
        uint8_t *props = tx->body + table + frame.count * OFFSET_SIZE + i * SIM_PROPS;
        record.props_len = (uint16_t)sim_publish_props(p, &stamp, props);
        sim_publish_payload(s, base + offset, p, &stamp);
        memcpy(tx->body + i * sizeof(record), &record, sizeof(record));
        memcpy(tx->body + table + i * OFFSET_SIZE, &offset, sizeof(offset));
    }
    s->stats.commits++;
    sim_tx_send(client, tx, &frame);
}

/* What is free --------------------------------------------------------------------------------- */

static void slots_freed(struct sim_client *client, uint64_t first, uint64_t last)
{
    struct sim_lease *lease = &client->lease;
    SIM_CHECK(client->sim, last <= client->commits,
              "client %u: commit %" PRIu64 " is over, and there were %" PRIu64, client->slot, last,
              client->commits);
    for (uint32_t i = 0; lease->state == SIM_OPEN && i < lease->slots; i++) {
        if (lease->taken[i] != 0 && lease->taken[i] >= first && lease->taken[i] <= last) {
            lease->taken[i] = 0;
            if (client->said_bye) {
                continue; /* It is not its own any more. */
            }
            memset(lease_base(client) + i * SIM_SLOT, 0xee, sizeof(struct sim_stamp));
        }
    }
}

void sim_lease_flow(struct sim_client *client, uint64_t value)
{
    SIM_CHECK(client->sim, value >= client->freed,
              "client %u: commits up to %" PRIu64 " are over, and %" PRIu64 " were", client->slot,
              value, client->freed);
    SIM_EVENT(client->sim, "freed client upto", client->slot, value);
    slots_freed(client, client->freed + 1, value);
    client->freed = value;
}

void sim_lease_freed(struct sim_client *client, const struct amb_frame *frame)
{
    SIM_CHECK(client->sim, frame->number > 0 && frame->count > 0, "client %u: no commits are over",
              client->slot);
    SIM_EVENT(client->sim, "freed_range client number count", client->slot, frame->number,
              frame->count);
    slots_freed(client, frame->number, frame->number + frame->count - 1);
}

bool sim_lease_is_free(const struct sim_client *client)
{
    for (uint32_t i = 0; client->lease.state == SIM_OPEN && i < client->lease.slots; i++) {
        if (client->lease.taken[i] != 0) {
            return false;
        }
    }
    return true;
}
