/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DESIGN. Two ends share one pair. Each end has a queue of tx not flushed, and a list of copies
 * that its peer has flushed and it has not polled. Bodies are copied twice, so that a tx is settled
 * at flush like on a socket and nothing of the sender's is read later.
 */
#include "wire/link/sim.h"

#include "wire/base/assert.h"
#include "wire/codec/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOW_WORDS (AMB_HANDLES_MAX / 64u)

/* A frame between the ends. */
struct sim_frame {
    struct amb_list_node node;
    uint64_t len;      /* of the body */
    uint64_t data_len; /* of its data, less what of its padding lay with the meta */
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    uint8_t body[];
};

struct sim_pair;

/* Counters of one direction that have changed: a bit each, and its newest value. */
struct sim_flows {
    uint64_t bits[AMB_FLOW_KINDS][FLOW_WORDS];
    uint64_t *values; /* [kind * handles + handle] */
    unsigned count;
};

struct sim_end {
    struct amb_link link;
    struct sim_pair *pair;
    struct amb_list_node queue;    /* struct amb_link_tx, sent here and not flushed */
    struct amb_list_node incoming; /* struct sim_frame, flushed by the peer */
    uint64_t incoming_bytes;
    struct sim_flows set; /* here and not flushed */
    struct sim_flows new; /* flushed by the peer and not polled */
    enum amb_status fate; /* goes down with this at the next poll */
    const char *fate_text;
    bool is_closed, is_busy, is_held;
};

struct sim_pair {
    struct sim_end end[2];
    struct amb_sim_options options;
    uint32_t handles; /* of each kind of counter */
    uint64_t values[];
};

static struct sim_end *end_of(struct amb_link *link)
{
    return AMB_CONTAINER_OF(link, struct sim_end, link);
}

static struct sim_end *peer_of(struct sim_end *end)
{
    return end == &end->pair->end[0] ? &end->pair->end[1] : &end->pair->end[0];
}

static void doom(struct sim_end *end, enum amb_status why, const char *text)
{
    if (end->fate == AMB_OK) {
        end->fate = why;
        end->fate_text = text;
    }
}

static void drop_incoming(struct sim_end *end)
{
    AMB_LIST_FOR_EACH_SAFE (node, &end->incoming) {
        free(AMB_CONTAINER_OF(node, struct sim_frame, node));
    }
    amb_list_init(&end->incoming);
    end->incoming_bytes = 0;
}

static void settle(struct sim_end *end, struct amb_link_tx *tx, enum amb_status status)
{
    amb_list_remove(&tx->node);
    end->link.queued--;
    end->link.queued_bytes -= AMB_FRAME_HEAD_SIZE + tx->data_len + tx->meta_len;
    end->link.events->on_sent(end->link.arg, tx, status);
}

static void settle_all(struct sim_end *end, enum amb_status status)
{
    while (!amb_list_is_empty(&end->queue)) {
        settle(end, AMB_CONTAINER_OF(end->queue.next, struct amb_link_tx, node), status);
    }
}

static void go_down(struct sim_end *end)
{
    end->link.is_down = true;
    drop_incoming(end);
    settle_all(end, AMB_ELOST);
    end->link.events->on_down(end->link.arg, end->fate, end->fate_text);
}

static enum amb_status sim_send(struct amb_link *link, struct amb_link_tx *tx)
{
    struct sim_end *end = end_of(link);
    if (link->is_down) {
        return AMB_ELOST;
    }
    bool has_body = amb_frame_has_body(tx->frame->type);
    tx->data_len = has_body ? amb_frame_body_data(tx->frame) - tx->data_pad : 0;
    tx->meta_len = has_body ? tx->frame->meta_len + tx->data_pad : 0;
    amb_frame_encode(tx->frame, tx->head);
    amb_list_push_back(&end->queue, &tx->node);
    link->queued++;
    link->queued_bytes += AMB_FRAME_HEAD_SIZE + tx->data_len + tx->meta_len;
    return AMB_EAGAIN;
}

static void flows_put(const struct sim_pair *pair, struct sim_flows *flows, unsigned kind,
                      uint32_t handle, uint64_t value)
{
    uint64_t *word = &flows->bits[kind][handle / 64], bit = UINT64_C(1) << (handle % 64);
    flows->values[kind * pair->handles + handle] = value;
    flows->count += (*word & bit) == 0;
    *word |= bit;
}

/* The next one, by kind and handle. False: there is none at or behind them. */
static bool flows_take(const struct sim_pair *pair, struct sim_flows *flows, unsigned *kind,
                       uint32_t *handle, uint64_t *value)
{
    for (; flows->count != 0 && *kind < AMB_FLOW_KINDS; ++*kind, *handle = 0) {
        for (uint32_t i = *handle / 64; i < (pair->handles + 63) / 64; i++) {
            uint64_t word = flows->bits[*kind][i];
            if (word != 0) {
                *handle = i * 64 + (uint32_t)__builtin_ctzll(word);
                *value = flows->values[*kind * pair->handles + *handle];
                flows->bits[*kind][i] &= word - 1;
                flows->count--;
                return true;
            }
        }
    }
    return false;
}

static void sim_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle,
                     uint64_t value)
{
    struct sim_end *end = end_of(link);
    amb_assert((unsigned)kind < AMB_FLOW_KINDS && handle < end->pair->handles);
    flows_put(end->pair, &end->set, (unsigned)kind, handle, value);
}

static void flush_flows(struct sim_end *end)
{
    unsigned kind = 0;
    uint32_t handle = 0;
    uint64_t value;
    while (flows_take(end->pair, &end->set, &kind, &handle, &value)) {
        flows_put(end->pair, &peer_of(end)->new, kind, handle, value);
    }
}

/* The oldest tx becomes a frame on its way. False: there is no room for it, or no memory. */
static bool flush_one(struct sim_end *end, struct amb_link_tx *tx)
{
    struct sim_end *peer = peer_of(end);
    uint64_t len = tx->data_len + tx->meta_len;
    uint64_t bytes_max = end->pair->options.bytes_max;
    /* One frame always passes, however large it is. */
    if (bytes_max != 0 && peer->incoming_bytes != 0 && peer->incoming_bytes + len > bytes_max) {
        return false;
    }
    struct sim_frame *frame = malloc(sizeof(*frame) + len);
    if (frame == NULL) {
        return false;
    }
    frame->len = len;
    frame->data_len = tx->data_len;
    memcpy(frame->head, tx->head, sizeof(frame->head));
    if (tx->is_device) {
        bool is_copied = end->pair->options.copy(frame->body, tx->data, tx->data_len);
        amb_assert(is_copied); /* The tests' drivers fail on the way in. */
    } else if (tx->data_len != 0) {
        memcpy(frame->body, tx->data, tx->data_len);
    }
    uint32_t zeros = tx->is_pad_apart ? tx->data_pad : 0;
    if (tx->meta_len != 0) {
        memset(frame->body + tx->data_len, 0, zeros);
        memcpy(frame->body + tx->data_len + zeros, tx->meta, tx->meta_len - zeros);
    }
    amb_list_push_back(&peer->incoming, &frame->node);
    peer->incoming_bytes += AMB_FRAME_HEAD_SIZE + len;
    end->link.stats.frames_sent++;
    end->link.stats.bytes_sent += AMB_FRAME_HEAD_SIZE + len;
    settle(end, tx, AMB_OK);
    return true;
}

static void push_out(struct sim_end *end)
{
    if (end->link.is_down || peer_of(end)->is_closed) {
        return;
    }
    flush_flows(end);
    while (!amb_list_is_empty(&end->queue) &&
           flush_one(end, AMB_CONTAINER_OF(end->queue.next, struct amb_link_tx, node))) {
    }
}

static void sim_flush(struct amb_link *link)
{
    struct sim_end *end = end_of(link);
    amb_assert(!end->is_busy);
    end->is_busy = true;
    push_out(end);
    end->is_busy = false;
}

static unsigned poll_flows(struct sim_end *end)
{
    unsigned done = 0, kind = 0;
    uint32_t handle = 0;
    uint64_t value;
    while (end->fate == AMB_OK && flows_take(end->pair, &end->new, &kind, &handle, &value)) {
        done++;
        enum amb_status status =
            end->link.events->on_flow(end->link.arg, (enum amb_flow_kind)kind, handle, value);
        if (status != AMB_OK) {
            doom(end, status, "flow value refused");
        }
    }
    return done;
}

/* Into the owner's device memory. ENOTSUP: it has none for it. */
static enum amb_status deliver_to_device(struct sim_end *end, const struct amb_frame *head,
                                         const struct sim_frame *frame)
{
    const struct amb_link_events *events = end->link.events;
    void *dst = NULL, *cookie = NULL;
    if (!end->link.takes_cuda || events->on_device == NULL) {
        return AMB_ENOTSUP;
    }
    enum amb_status status =
        events->on_device(end->link.arg, head, frame->body + frame->len - head->meta_len,
                          frame->data_len, &dst, &cookie);
    if (status != AMB_OK || dst == NULL) {
        return status;
    }
    bool is_copied = end->pair->options.copy(dst, frame->body, frame->data_len);
    status = events->on_body(end->link.arg, cookie, is_copied ? AMB_OK : AMB_ELOST);
    return is_copied || status != AMB_OK ? status : AMB_ELOST;
}

static void deliver(struct sim_end *end, const struct sim_frame *frame)
{
    const struct amb_link_events *events = end->link.events;
    struct amb_frame head;
    if (amb_frame_decode(frame->head, &head) != AMB_OK) {
        doom(end, AMB_EPROTO, "malformed head");
        return;
    }
    void *dst = NULL, *cookie = NULL;
    struct amb_link_mem *mem = NULL;
    enum amb_status status = (head.flags & AMB_FRAME_FLAG_DEVICE) != 0
                                 ? deliver_to_device(end, &head, frame)
                                 : AMB_ENOTSUP;
    if (status == AMB_ENOTSUP) {
        status = events->on_frame(end->link.arg, &head, &dst, &cookie, &mem);
    }
    if (status != AMB_OK) {
        doom(end, status, "frame refused");
        return;
    }
    end->link.stats.frames_received++;
    end->link.stats.bytes_received += AMB_FRAME_HEAD_SIZE + frame->len;
    if (frame->len == 0 || dst == NULL) {
        return;
    }
    memcpy(dst, frame->body, frame->len);
    status = events->on_body(end->link.arg, cookie, AMB_OK);
    if (status != AMB_OK) {
        doom(end, status, "body refused");
    }
}

static unsigned poll_frames(struct sim_end *end, unsigned budget)
{
    unsigned done = 0;
    unsigned most = end->pair->options.poll_frames;
    if (most != 0 && most < budget) {
        budget = most;
    }
    while (done < budget && end->fate == AMB_OK && !amb_list_is_empty(&end->incoming)) {
        struct sim_frame *frame =
            AMB_CONTAINER_OF(amb_list_pop_front(&end->incoming), struct sim_frame, node);
        end->incoming_bytes -= AMB_FRAME_HEAD_SIZE + frame->len;
        deliver(end, frame);
        free(frame);
        done++;
    }
    return done;
}

static unsigned sim_poll(struct amb_link *link, unsigned budget)
{
    struct sim_end *end = end_of(link);
    amb_assert(!end->is_busy);
    if (link->is_down) {
        return 0;
    }
    end->is_busy = true;
    unsigned done = 0;
    if (end->fate == AMB_OK && !end->is_held) {
        done = poll_flows(end) + poll_frames(end, budget);
        if (peer_of(end)->is_closed && amb_list_is_empty(&end->incoming)) {
            doom(end, AMB_ELOST, "the peer closed the link");
        }
    }
    if (end->fate != AMB_OK) {
        go_down(end);
        done++;
    } else if (link->queued != 0) {
        /* As a socket would when it has room again. */
        size_t queued = link->queued;
        push_out(end);
        done += (unsigned)(queued - link->queued);
    }
    end->is_busy = false;
    return done;
}

static bool sim_arm(struct amb_link *link, bool want_flow)
{
    struct sim_end *end = end_of(link);
    (void)want_flow;
    if (link->is_down) {
        return true;
    }
    return end->fate == AMB_OK &&
           (end->is_held ||
            (end->new.count == 0 && amb_list_is_empty(&end->incoming) && !peer_of(end)->is_closed));
}

static void sim_disarm(struct amb_link *link)
{
    (void)link;
}

static int sim_fd(const struct amb_link *link)
{
    (void)link;
    return -1;
}

static bool sim_close(struct amb_link *link)
{
    struct sim_end *end = end_of(link);
    amb_assert(!end->is_busy);
    /* Busy for good: upcalls may send now, and must learn that it is of no use. */
    end->is_busy = true;
    link->is_down = true;
    end->is_closed = true;
    drop_incoming(end);
    settle_all(end, AMB_ECANCELED);
    if (peer_of(end)->is_closed) {
        free(end->pair);
    }
    return true;
}

static void sim_describe(const struct amb_link *link, char *out, size_t size)
{
    (void)link;
    (void)snprintf(out, size, "sim");
}

static const struct amb_link_ops sim_ops = {
    .kind = AMB_LINK_SIM,
    .send = sim_send,
    .flow = sim_flow,
    .flush = sim_flush,
    .poll = sim_poll,
    .arm = sim_arm,
    .disarm = sim_disarm,
    .fd = sim_fd,
    .close = sim_close,
    .describe = sim_describe,
};

enum amb_status amb_sim_create(const struct amb_sim_options *options,
                               const struct amb_link_events *events[2], void *args[2],
                               struct amb_link *out[2])
{
    uint32_t handles = options->handles == 0 ? AMB_HANDLES_MAX : options->handles;
    amb_assert(handles <= AMB_HANDLES_MAX);
    size_t values = (size_t)AMB_FLOW_KINDS * handles;
    struct sim_pair *pair = calloc(1, sizeof(*pair) + 4 * values * sizeof(uint64_t));
    if (pair == NULL) {
        return AMB_ENOMEM;
    }
    pair->options = *options;
    pair->handles = handles;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_end *end = &pair->end[i];
        end->link.ops = &sim_ops;
        end->link.events = events[i];
        end->link.arg = args[i];
        end->link.takes_cuda = options->copy != NULL;
        end->link.device_min = options->copy != NULL ? AMB_LINK_DEVICE_MIN : UINT64_MAX;
        end->pair = pair;
        end->set.values = &pair->values[(size_t)(2 * i) * values];
        end->new.values = &pair->values[(size_t)(2 * i + 1) * values];
        amb_list_init(&end->queue);
        amb_list_init(&end->incoming);
        out[i] = &end->link;
    }
    return AMB_OK;
}

void amb_sim_break(struct amb_link *link)
{
    struct sim_end *end = end_of(link);
    drop_incoming(end);
    doom(end, AMB_ELOST, "broken by the test");
}

void amb_sim_hold(struct amb_link *link, bool is_held)
{
    end_of(link)->is_held = is_held;
}

bool amb_sim_is_drained(struct amb_link *link)
{
    struct sim_end *end = end_of(link);
    return amb_list_is_empty(&end->incoming) && end->new.count == 0 &&
           (peer_of(end)->is_closed || amb_list_is_empty(&peer_of(end)->queue));
}
