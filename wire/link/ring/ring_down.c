/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ring/ring_down.h"

void ring_settle(struct ring *ring, enum amb_status body_status, enum amb_status tx_status)
{
    struct amb_link *link = &ring->link;
    struct ring_in *in = &ring->in;
    if (in->body_at != NULL) {
        in->body_at = NULL;
        (void)link->events->on_body(link->arg, in->body_cookie, body_status);
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&ring->out.queue)) != NULL) {
        link->events->on_sent(link->arg, AMB_CONTAINER_OF(node, struct amb_link_tx, node),
                              tx_status);
    }
    link->queued = 0;
    link->queued_bytes = 0;
}

bool ring_is_emptied(const struct ring *ring)
{
    const struct ring_in *in = &ring->in;
    const struct ring_out *out = &ring->out;
    return !ring->is_broker &&
           ((in->tail != 0 &&
             atomic_load_explicit(&in->control->tail, memory_order_relaxed) == 0) ||
            (out->head != 0 &&
             atomic_load_explicit(&out->control->head, memory_order_relaxed) == 0));
}

void ring_down(struct ring *ring, enum amb_status why, const char *text)
{
    struct amb_link *link = &ring->link;
    if (link->is_down) {
        return;
    }
    if (why == AMB_EPROTO && ring_is_emptied(ring)) {
        why = AMB_ELOST; /* Bytes that look broken are those that nobody is to read any more. */
        text = "the broker has closed the ring and taken its memory back";
    }
    link->is_down = true;
    ring_settle(ring, why, AMB_ELOST);
    link->events->on_down(link->arg, why, text);
}
