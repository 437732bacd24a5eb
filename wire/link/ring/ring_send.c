/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of a ring. A frame is copied into the ring once, by amb_link_send if there is
 * room, else piece by piece as the peer makes room. The peer learns of it at the flush, and before
 * that when a fair part of the ring is new. So both sides copy at the same time.
 */
#include "wire/link/ring/ring_send.h"

#include "wire/base/assert.h"
#include "wire/link/ring/ring_bell.h"
#include "wire/link/ring/ring_down.h"
#include "wire/link/ring/ring_pages.h"

#include <string.h>

/* Settled per pump: a caller that sends from on_sent must not keep us here for ever. */
#define PUMP_MAX 256u

/* ---- room ---- */

/* Reads the peer's head again. A head that is behind the last one, or ahead of the newest that the
 * peer knows of, is a lie. It is reported later, where callbacks are allowed. */
static void look_at_head(struct ring *ring)
{
    struct ring_out *out = &ring->out;
    /* Acquire: partner of the peer's release of head. Its reading is over where we write. And
     * sequentially consistent, for ring_arm: partner of the exchange in ring_push_out. */
    uint64_t head = atomic_load(&out->control->head);
    if (head - out->head > out->published - out->head) {
        ring->broken = "ring head out of range";
        ring->broken_status = AMB_EPROTO;
        return;
    }
    out->head = head;
}

static bool has_room(struct ring *ring, uint64_t bytes)
{
    struct ring_out *out = &ring->out;
    if (out->tail + bytes - out->head <= ring->size) {
        return ring->broken == NULL;
    }
    look_at_head(ring);
    return ring->broken == NULL && out->tail + bytes - out->head <= ring->size;
}

static void publish(struct ring *ring)
{
    struct ring_out *out = &ring->out;
    if (out->published != out->tail) {
        out->published = out->tail;
        /* Release: partner of the acquire load of tail in ring_recv.c. */
        atomic_store_explicit(&out->control->tail, out->tail, memory_order_release);
    }
}

/* ---- units ---- */

static uint64_t body_len(const struct amb_link_tx *tx)
{
    return tx->data_len + tx->meta_len;
}

/* Copies bytes `from`.. of the body, which is data and then meta. */
static void copy_body(uint8_t *to, const struct amb_link_tx *tx, uint64_t from, uint64_t n)
{
    if (from < tx->data_len) {
        uint64_t left = tx->data_len - from, part = n < left ? n : left;
        ring_copy(to, (const uint8_t *)tx->data + from, part);
        to += part;
        from += part;
        n -= part;
    }
    if (n > 0) {
        ring_copy(to, (const uint8_t *)tx->meta + (from - tx->data_len), n);
    }
}

/*
 * The next unit of tx: bytes in front of the body's piece, and the piece. tx->sent counts the frame
 * head and the body. All pieces but the last are multiples of 64 B, which keeps the receiver's
 * copies aligned.
 */
static uint64_t next_piece(const struct ring *ring, const struct amb_link_tx *tx, uint32_t *front)
{
    bool is_first = tx->sent == 0;
    *front = RING_HEAD + (is_first ? AMB_FRAME_HEAD_SIZE : 0);
    uint64_t done = is_first ? 0 : tx->sent - AMB_FRAME_HEAD_SIZE;
    uint64_t left = body_len(tx) - done;
    uint64_t max = (ring_unit_max(ring) - *front) & ~(RING_PAD - 1);
    return left < max ? left : max;
}

/* Writes units while there is room; true: all of tx is written. */
static bool write_tx(struct ring *ring, struct amb_link_tx *tx)
{
    struct ring_out *out = &ring->out;
    const uint64_t total = AMB_FRAME_HEAD_SIZE + body_len(tx);
    while (tx->sent < total) {
        uint32_t front;
        uint64_t piece = next_piece(ring, tx, &front), unit = ring_pad(front + piece);
        if (!has_room(ring, unit) || !ring_pages_reach(ring, out->tail + unit)) {
            publish(ring);
            return false;
        }
        bool is_first = tx->sent == 0;
        uint8_t *to = ring_at(out->bytes, ring->size, out->tail);
        struct ring_unit head = {.len = (uint32_t)(front - RING_HEAD + piece),
                                 .kind = is_first ? RING_UNIT_FRAME : RING_UNIT_CHUNK};
        memcpy(to, &head, sizeof(head));
        if (is_first) {
            memcpy(to + RING_HEAD, tx->head, AMB_FRAME_HEAD_SIZE);
            tx->sent = AMB_FRAME_HEAD_SIZE;
        }
        copy_body(to + front, tx, tx->sent - AMB_FRAME_HEAD_SIZE, piece);
        tx->sent += piece;
        out->tail += unit;
        if (out->tail - out->published >= ring->size / 8) {
            publish(ring);
        }
    }
    ring->link.stats.frames_sent++;
    ring->link.stats.bytes_sent += total;
    return true;
}

enum amb_status ring_send(struct amb_link *link, struct amb_link_tx *tx)
{
    struct ring *ring = ring_of(link);
    if (link->is_down) {
        return AMB_ELOST;
    }
    const struct amb_frame *frame = tx->frame;
    bool has_body = amb_frame_has_body(frame->type);
    tx->data_len = has_body ? amb_frame_body_data(frame) - tx->data_pad : 0;
    tx->meta_len = has_body ? frame->meta_len + tx->data_pad : 0;
    tx->sent = 0;
    amb_frame_encode(frame, tx->head);
    if (amb_list_is_empty(&ring->out.queue) && write_tx(ring, tx)) {
        if (ring->is_broker) {
            publish(ring); /* A client that looks need not wait until all others are flushed. */
        }
        return AMB_OK;
    }
    amb_list_push_back(&ring->out.queue, &tx->node);
    link->queued++;
    link->queued_bytes += AMB_FRAME_HEAD_SIZE + body_len(tx);
    return AMB_EAGAIN;
}

unsigned ring_pump(struct ring *ring)
{
    struct amb_link *link = &ring->link;
    unsigned settled = 0;
    while (settled < PUMP_MAX && !amb_list_is_empty(&ring->out.queue)) {
        struct amb_link_tx *tx = AMB_CONTAINER_OF(ring->out.queue.next, struct amb_link_tx, node);
        if (!write_tx(ring, tx)) {
            break;
        }
        amb_list_remove(&tx->node);
        link->queued--;
        link->queued_bytes -= AMB_FRAME_HEAD_SIZE + body_len(tx);
        settled++;
        link->events->on_sent(link->arg, tx, AMB_OK);
    }
    return settled;
}

bool ring_can_pump(struct ring *ring)
{
    if (amb_list_is_empty(&ring->out.queue)) {
        return false;
    }
    const struct amb_link_tx *tx = AMB_CONTAINER_OF(ring->out.queue.next, struct amb_link_tx, node);
    uint32_t front;
    uint64_t piece = next_piece(ring, tx, &front);
    return has_room(ring, ring_pad(front + piece));
}

/* ---- flow values ---- */

void ring_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct ring *ring = ring_of(link);
    amb_assert((unsigned)kind < AMB_FLOW_KINDS && handle < AMB_HANDLES_MAX);
    if (link->is_down) {
        return;
    }
    struct ring_out *out = &ring->out;
    uint32_t slot = (uint32_t)kind * AMB_HANDLES_MAX + handle;
    /* Ordered by the mark in mark_flows, which the peer takes before it reads the value. */
    atomic_store_explicit(&out->control->flow[slot], value, memory_order_relaxed);
    out->flow_map[slot / 64] |= UINT64_C(1) << (slot % 64);
    out->flow_words |= UINT64_C(1) << (slot / 64);
}

/* Marks each changed value once, however often it was set; the words first, then their sum. */
static void mark_flows(struct ring_out *out)
{
    for (uint64_t words = out->flow_words; words != 0; words &= words - 1) {
        uint32_t w = (uint32_t)__builtin_ctzll(words);
        /* Release: partner of the exchange in take_flows (ring_recv.c). */
        atomic_fetch_or_explicit(&out->control->flow_map[w], out->flow_map[w],
                                 memory_order_release);
        out->flow_map[w] = 0;
    }
    /* Sequentially consistent: partner of `sleeping`, see ring_state.h. */
    atomic_fetch_or(&out->control->flow_words, out->flow_words);
    out->flow_words = 0;
}

/* ---- flush ---- */

/* The peer consumes our way out, so it sleeps there, whatever it waits for. */
static void wake(struct ring *ring, uint32_t news)
{
    struct ring_control *c = ring->out.control;
    if ((atomic_load(&c->sleeping) & news) != 0 && atomic_exchange(&c->sleeping, 0) != 0) {
        ring_bell_ring(ring);
        ring->link.stats.wakes_sent++;
    }
}

/* For the peer, which has not been pushed out. */
static inline bool has_news(const struct ring *ring)
{
    return ring->out.flushed != ring->out.tail || ring->out.flow_words != 0 ||
           ring->in.flushed != ring->in.head;
}

void ring_push_out(struct ring *ring)
{
    struct ring_out *out = &ring->out;
    struct ring_in *in = &ring->in;
    uint32_t news = 0;
    if (out->flushed != out->tail) {
        out->published = out->flushed = out->tail;
        atomic_exchange(&out->control->tail, out->tail);
        news |= RING_WAIT_DATA;
    }
    if (out->flow_words != 0) {
        mark_flows(out);
        news |= RING_WAIT_FLOW;
    }
    if (in->flushed != in->head) {
        in->published = in->flushed = in->head;
        atomic_exchange(&in->control->head, in->head);
        news |= RING_WAIT_ROOM;
    }
    if (news == 0) {
        return;
    }
    wake(ring, news);
}

void ring_say_closed(struct ring *ring)
{
    ring_push_out(ring);
    atomic_exchange(&ring->out.control->closed, 1);
    wake(ring, UINT32_MAX);
}

void ring_flush(struct amb_link *link)
{
    struct ring *ring = ring_of(link);
    if (link->is_down) {
        return;
    }
    if (!amb_list_is_empty(&ring->out.queue)) {
        (void)ring_pump(ring);
    }
    if (ring->broken != NULL) {
        ring_down(ring, ring->broken_status, ring->broken);
        return;
    }
    if (has_news(ring)) {
        ring_push_out(ring);
    }
}
