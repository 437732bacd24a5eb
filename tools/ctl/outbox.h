/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages lent to libamb until they are settled: amb_pub_post borrows a payload, so it waits here,
 * oldest first, bounded by number and by bytes. Waits go on in slices until the deadline of the
 * command or a signal.
 * Threads: one. Memory: owns the payload buffers; amb_outbox_fini only after amb_pub_close.
 */
#pragma once

#include "tools/ctl/ctl.h"

#define AMB_OUTBOX_SLOTS 64u
#define AMB_OUTBOX_BYTES_MAX (UINT64_C(64) << 20) /* or one larger message alone */

struct amb_outbox_slot {
    uint8_t *data;
    size_t len, cap;
    uint64_t seq;
};

struct amb_outbox {
    const struct amb_ctl *ctl;
    struct amb_pub *pub;
    struct amb_outbox_slot slots[AMB_OUTBOX_SLOTS];
    uint64_t head, tail; /* in use: tail..head-1, modulo AMB_OUTBOX_SLOTS */
    uint64_t lent_bytes;
};

/* A slot whose buffer nobody borrows; waits until `len` more bytes are within the budget. */
enum amb_status amb_outbox_take(struct amb_outbox *box, size_t len, struct amb_outbox_slot **out);
/* Room for cap bytes in the slot; false: no memory. */
bool amb_outbox_reserve(struct amb_outbox_slot *slot, size_t cap);
/* Publishes the slot taken last; out->data and len are set here. */
enum amb_status amb_outbox_post(struct amb_outbox *box, struct amb_out *out);
/* Waits until every message up to seq is settled (0: all). */
enum amb_status amb_outbox_settle(const struct amb_outbox *box, uint64_t seq);
void amb_outbox_fini(struct amb_outbox *box);
