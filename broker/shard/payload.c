/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/payload.h"

#include "broker/base/heap_account.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define HEAP_ALIGN 64u
/* Of one worker, for readers may keep what a session has left behind. */
#define HEAP_BUFS_MAX (UINT64_C(8) << 20)

enum amb_status amb_payload_alloc_heap(struct amb_payload *payload, struct amb_shard *shard,
                                       struct amb_heap_account *heap, uint64_t len)
{
    uint64_t cap = (len + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
    if (shard->memory.heap_bufs + cap > HEAP_BUFS_MAX ||
        !amb_heap_go_on(heap, cap + AMB_HEAP_OVERHEAD)) {
        return AMB_ENOMEM;
    }
    uint8_t *data = aligned_alloc(HEAP_ALIGN, cap);
    if (data == NULL) {
        amb_heap_give(heap, cap + AMB_HEAP_OVERHEAD);
        return AMB_ENOMEM;
    }
    shard->memory.heap_bufs += cap;
    payload->heap = (uint32_t)(cap + AMB_HEAP_OVERHEAD);
    payload->buf = (struct amb_buf){.data = data, .cap = cap, .cls = AMB_BUF_HEAP};
    return AMB_OK;
}

/* The session is charged no more, if it is still there. */
static void heap_give(struct amb_payload *payload)
{
    const struct amb_segment_lease *lease = payload->commit.lease;
    if (lease != NULL && lease->book != NULL) {
        amb_heap_give(lease->book->heap, payload->heap);
    }
    payload->heap = 0;
}

/* The buffer, of a pool or of the heap. A refused commit has none. */
static void buffer_free(struct amb_payload *payload, struct amb_shard *shard)
{
    if (payload->buf.data == NULL) {
        return;
    }
    if (payload->buf.cls != AMB_BUF_HEAP) {
        amb_buf_free(&payload->buf);
        return;
    }
    shard->memory.heap_bufs -= payload->buf.cap;
    heap_give(payload);
    free(payload->buf.data);
}

void amb_payload_copied(struct amb_payload *payload, struct amb_shard *shard,
                        const struct amb_buf *buf)
{
    amb_assert(payload->kind == AMB_PAYLOAD_SLOTS);
    amb_commit_untake(&payload->commit);
    buffer_free(payload, shard);
    payload->buf = *buf;
    payload->kind = AMB_PAYLOAD_COPIED;
}

void amb_payload_let_go(struct amb_payload *payload)
{
    heap_give(payload);
    amb_commit_over(&payload->commit); /* It reads the offsets, which lie in the buffer. */
}

void amb_payload_settled(struct amb_payload *payload)
{
    if (payload->kind == AMB_PAYLOAD_COPIED) {
        amb_payload_let_go(payload);
    }
}

void amb_payload_end_other(struct amb_payload *payload, struct amb_shard *shard)
{
    amb_payload_let_go(payload);
    buffer_free(payload, shard);
}
