/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/outbox.h"

#include "tools/ctl/connect.h"

#include <stdlib.h>

#define KEEP_BYTES ((size_t)1 << 20) /* a larger buffer is not kept for the next message */

enum amb_status amb_outbox_settle(const struct amb_outbox *box, uint64_t seq)
{
    enum amb_status status;
    do {
        status = amb_pub_flush(box->pub, seq, amb_ctl_slice_ns(box->ctl));
    } while (amb_ctl_again(box->ctl, status));
    return status;
}

static void retire(struct amb_outbox *box)
{
    struct amb_outbox_slot *slot = &box->slots[box->tail % AMB_OUTBOX_SLOTS];
    box->lent_bytes -= slot->len;
    if (slot->cap > KEEP_BYTES) {
        free(slot->data);
        *slot = (struct amb_outbox_slot){0};
    }
    box->tail++;
}

enum amb_status amb_outbox_take(struct amb_outbox *box, size_t len, struct amb_outbox_slot **out)
{
    while (box->head - box->tail == AMB_OUTBOX_SLOTS ||
           (box->head != box->tail && box->lent_bytes + len > AMB_OUTBOX_BYTES_MAX)) {
        enum amb_status status =
            amb_outbox_settle(box, box->slots[box->tail % AMB_OUTBOX_SLOTS].seq);
        if (status != AMB_OK) {
            return status;
        }
        retire(box);
    }
    *out = &box->slots[box->head % AMB_OUTBOX_SLOTS];
    (*out)->len = 0;
    return AMB_OK;
}

bool amb_outbox_reserve(struct amb_outbox_slot *slot, size_t cap)
{
    if (cap > slot->cap) {
        uint8_t *data = realloc(slot->data, cap);
        if (data == NULL) {
            return false;
        }
        slot->data = data;
        slot->cap = cap;
    }
    return true;
}

enum amb_status amb_outbox_post(struct amb_outbox *box, struct amb_out *out)
{
    struct amb_outbox_slot *slot = &box->slots[box->head % AMB_OUTBOX_SLOTS];
    out->data = slot->data;
    out->len = slot->len;
    enum amb_status status;
    do {
        status = amb_pub_post(box->pub, out, amb_ctl_slice_ns(box->ctl), &slot->seq);
    } while (amb_ctl_again(box->ctl, status));
    if (status == AMB_OK) {
        box->head++;
        box->lent_bytes += slot->len;
    }
    return status;
}

void amb_outbox_fini(struct amb_outbox *box)
{
    for (size_t i = 0; i < AMB_OUTBOX_SLOTS; i++) {
        free(box->slots[i].data);
    }
}
