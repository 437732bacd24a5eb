/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer's side of a ring. The peer may write anything anywhere at any time. So values are
 * copied before anything is decided upon them, by loads that the compiler may not repeat. A
 * position is believed only if it lies between our own and a ring's size further. Bodies are copied
 * once, to where on_frame said, without being looked at.
 */
#include "wire/link/ring/ring_recv.h"

#include "wire/link/ring/ring_down.h"
#include "wire/link/ring/ring_send.h"

#include <string.h>

/* After this no value can be read from the shared bytes again in place of its copy. */
static void copy_once(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    __asm__ volatile("" ::: "memory");
}

/* ---- flow values ---- */

static void take_flows(struct ring_in *in)
{
    struct ring_control *c = in->control;
    if (atomic_load_explicit(&c->flow_words, memory_order_relaxed) == 0) {
        return;
    }
    /* Acquire: partners of mark_flows (ring_send.c). Bits beyond the map are nobody's. */
    uint64_t words = atomic_exchange_explicit(&c->flow_words, 0, memory_order_acquire);
    words &= ~UINT64_C(0) >> (64 - RING_FLOW_WORDS);
    in->flow_words |= words;
    for (; words != 0; words &= words - 1) {
        uint32_t w = (uint32_t)__builtin_ctzll(words);
        in->flow_map[w] |= atomic_exchange_explicit(&c->flow_map[w], 0, memory_order_acquire);
    }
}

static unsigned poll_flows(struct ring *ring, unsigned budget)
{
    struct ring_in *in = &ring->in;
    const struct amb_link_events *events = ring->link.events;
    unsigned done = 0;
    take_flows(in);
    while (in->flow_words != 0 && done < budget) {
        uint32_t w = (uint32_t)__builtin_ctzll(in->flow_words);
        if (in->flow_map[w] == 0) {
            in->flow_words &= in->flow_words - 1;
            continue;
        }
        uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(in->flow_map[w]);
        in->flow_map[w] &= in->flow_map[w] - 1;
        uint32_t kind = slot / AMB_HANDLES_MAX;
        if (ring->is_broker && kind >= RING_FLOW_OUT_KINDS_CLIENT) {
            ring_down(ring, AMB_EPROTO, "flow value of a kind that clients do not have");
            break;
        }
        uint64_t value = atomic_load_explicit(&in->control->flow[slot], memory_order_relaxed);
        done++;
        enum amb_status status = events->on_flow(ring->link.arg, (enum amb_flow_kind)kind,
                                                 slot % AMB_HANDLES_MAX, value);
        if (status != AMB_OK) {
            ring_down(ring, status, "flow value refused");
            break;
        }
    }
    return done;
}

/* ---- units ---- */

/* Reads the peer's tail; false: it is not where it can be. */
static bool look_at_tail(struct ring *ring)
{
    struct ring_in *in = &ring->in;
    /* Acquire: partner of the release of tail in ring_send.c; the bytes before it are written. */
    uint64_t tail = atomic_load_explicit(&in->control->tail, memory_order_acquire);
    uint64_t ahead = tail - in->head;
    if (ahead > ring->size || ahead < in->tail - in->head || ahead % RING_PAD != 0) {
        return false;
    }
    in->tail = tail;
    return true;
}

static void release(struct ring *ring)
{
    struct ring_in *in = &ring->in;
    if (in->published != in->head) {
        in->published = in->head;
        /* Release: partner of look_at_head (ring_send.c). */
        atomic_store_explicit(&in->control->head, in->head, memory_order_release);
    }
}

/* Copies a piece of the open body, and closes it with the last one. */
static enum amb_status take_body(struct ring *ring, const uint8_t *from, uint64_t n)
{
    struct ring_in *in = &ring->in;
    bool is_wanted = in->body_at != NULL;
    if (is_wanted) {
        ring_copy(in->body_at, from, n);
        in->body_at += n;
    }
    in->body_left -= n;
    ring->link.stats.bytes_received += n;
    if (in->body_left > 0 || !is_wanted) {
        return AMB_OK;
    }
    /* A broker that does not know our process takes the memory back when the session ends. Then the
     * copy may have met zeros. Acquire: the indices are looked at behind the bytes. */
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(ring_is_emptied(ring), 0)) {
        return AMB_EPROTO; /* ring_down settles the body, and says what it is. */
    }
    in->body_at = NULL;
    return ring->link.events->on_body(ring->link.arg, in->body_cookie, AMB_OK);
}

static enum amb_status take_frame(struct ring *ring, const uint8_t *from, uint64_t n,
                                  const char **why)
{
    struct ring_in *in = &ring->in;
    if (in->body_left > 0 || n < AMB_FRAME_HEAD_SIZE) {
        return AMB_EPROTO;
    }
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    copy_once(head, from, sizeof(head));
    struct amb_frame frame;
    if (amb_frame_decode(head, &frame) != AMB_OK) {
        *why = "frame head malformed";
        return AMB_EPROTO;
    }
    uint64_t body = amb_frame_body_len(&frame);
    n -= AMB_FRAME_HEAD_SIZE;
    if (n > body || (n == 0 && body > 0)) {
        return AMB_EPROTO;
    }
    *why = "frame refused";
    ring->link.stats.frames_received++;
    ring->link.stats.bytes_received += AMB_FRAME_HEAD_SIZE;

    void *dst = NULL, *cookie = NULL;
    struct amb_link_mem *mem = NULL;
    enum amb_status status =
        ring->link.events->on_frame(ring->link.arg, &frame, &dst, &cookie, &mem);
    if (status != AMB_OK || body == 0) {
        return status;
    }
    in->body_left = body;
    in->body_at = dst;
    in->body_cookie = cookie;
    return take_body(ring, from + AMB_FRAME_HEAD_SIZE, n);
}

/* One unit; there is one. *why explains a failure. */
static enum amb_status take_unit(struct ring *ring, const char **why)
{
    struct ring_in *in = &ring->in;
    const uint8_t *at = ring_at(in->bytes, ring->size, in->head);
    struct ring_unit unit;
    copy_once(&unit, at, sizeof(unit));
    uint64_t whole = ring_pad((uint64_t)RING_HEAD + unit.len);
    *why = "ring unit malformed";
    if (whole > in->tail - in->head) {
        return AMB_EPROTO;
    }
    enum amb_status status = AMB_EPROTO;
    if (unit.kind == RING_UNIT_FRAME) {
        status = take_frame(ring, at + RING_HEAD, unit.len, why);
    } else if (unit.kind == RING_UNIT_CHUNK && unit.len > 0 && unit.len <= in->body_left) {
        *why = "frame refused";
        status = take_body(ring, at + RING_HEAD, unit.len);
    }
    in->head += whole;
    if (in->head - in->published >= ring->size / 8) {
        release(ring);
    }
    return status;
}

/* Nothing is known to be there: looks again. False: there is nothing, or the link is down. */
static bool look_for_more(struct ring *ring)
{
    struct ring_in *in = &ring->in;
    /* Before tail, which the peer moves first: what it sent before it closed is received. */
    bool is_closed = atomic_load_explicit(&in->control->closed, memory_order_acquire) != 0;
    if (!look_at_tail(ring)) {
        ring_down(ring, AMB_EPROTO, "ring tail out of range");
        return false;
    }
    if (in->tail == in->head && is_closed) {
        ring_down(ring, AMB_ELOST, "the peer closed the ring");
        return false;
    }
    return in->tail != in->head;
}

static unsigned poll_units(struct ring *ring, unsigned budget)
{
    struct ring_in *in = &ring->in;
    unsigned done = 0;
    while (done < budget) {
        if (in->tail == in->head && !look_for_more(ring)) {
            break;
        }
        const char *why;
        enum amb_status status = take_unit(ring, &why);
        done++;
        if (status != AMB_OK) {
            ring_down(ring, status, why);
            return done;
        }
    }
    release(ring);
    return done;
}

/* Does the peer perhaps sleep until there is room? It then found less than a quarter of the ring
 * free, for no unit is larger. It is told when it has as much, or when there will be no more. */
static bool may_want_room(const struct ring *ring)
{
    const struct ring_in *in = &ring->in;
    return in->tail - in->flushed >= ring->size / 2 && in->flushed != in->head &&
           (in->head - in->flushed >= ring->size / 4 || in->head == in->tail);
}

/* Most looks find that: nobody has done anything since the last flush. It costs three loads of
 * memory that the peer writes, and no more. */
static inline bool is_quiet(const struct ring *ring)
{
    const struct ring_in *in = &ring->in;
    return in->tail == in->head && in->flushed == in->head && in->flow_words == 0 &&
           ring->link.queued == 0 && ring->broken == NULL &&
           atomic_load_explicit(&in->control->tail, memory_order_relaxed) == in->tail &&
           atomic_load_explicit(&in->control->flow_words, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&in->control->closed, memory_order_relaxed) == 0;
}

unsigned ring_poll(struct amb_link *link, unsigned budget)
{
    struct ring *ring = ring_of(link);
    unsigned done = 0;
    if (is_quiet(ring)) {
        return 0;
    }
    if (!link->is_down) {
        done += poll_flows(ring, budget);
    }
    if (!link->is_down) {
        done += poll_units(ring, budget);
    }
    bool has_waited = link->queued > 0;
    if (!link->is_down && has_waited) {
        done += ring_pump(ring);
    }
    if (!link->is_down && ring->broken != NULL) {
        ring_down(ring, ring->broken_status, ring->broken);
    }
    if (!link->is_down && (has_waited || may_want_room(ring))) {
        ring_push_out(ring); /* No flush need follow: our owner has sent nothing. */
    }
    return done;
}

bool ring_can_poll(struct ring *ring, bool want_flow)
{
    struct ring_in *in = &ring->in;
    if (in->flow_words != 0 || in->tail != in->head) {
        return true;
    }
    /* Sequentially consistent: partners of the exchanges in ring_push_out. */
    return atomic_load(&in->control->tail) != in->head || atomic_load(&in->control->closed) != 0 ||
           (want_flow && atomic_load(&in->control->flow_words) != 0);
}
