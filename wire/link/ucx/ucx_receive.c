/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way in. Small bodies come with the message (eager) and are copied here. UCX
 * fetches large ones from the sender's memory into the owner's; they complete later, in any order.
 * Lengths must be what the head says they are. Data that is fetched from a GPU's memory may be
 * fetched into a GPU's memory. It is the data alone: the meta then has come with the head.
 */
#include "wire/link/ucx/ucx_receive.h"

#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_table.h"

#include <string.h>

/* Where a head holds the session's triple (docs/wire.md); read before anything else of it. */
#define HEAD_AT_SESSION 8u
#define HEAD_AT_GENERATION 12u
#define HEAD_AT_SECRET 16u

static void on_recv_done(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct amb_ucx_op *op = user_data;
    amb_ucx_api.ucp_request_free(request);
    if (status == UCS_OK && length != op->expected) {
        status = UCS_ERR_MESSAGE_TRUNCATED;
    }
    amb_ucx_op_settle(op, status);
}

/* Where a body goes. */
struct place {
    void *dst, *cookie;
    struct amb_link_mem *mem;
    bool is_device; /* dst is a GPU's memory, for the data alone */
};

/* Where the owner wants a body. False: the body is not wanted, or the link broken. */
static bool ask_owner(struct amb_ucx_link *link, const struct amb_frame *frame, bool has_body,
                      struct place *place)
{
    enum amb_status status = link->base.events->on_frame(link->base.arg, frame, &place->dst,
                                                         &place->cookie, &place->mem);
    if (status != AMB_OK) {
        amb_ucx_link_break(link, status, "a frame was refused");
        return false;
    }
    return has_body && place->dst != NULL;
}

/* May its data, `length` bytes, go to a GPU's memory? ENOTSUP: no; else as ask_owner. */
static enum amb_status ask_for_device(struct amb_ucx_link *link, const struct amb_frame *frame,
                                      const uint8_t *meta, size_t length, struct place *place)
{
    const struct amb_link_events *events = link->base.events;
    if (events->on_device == NULL || !link->base.takes_cuda) {
        return AMB_ENOTSUP;
    }
    enum amb_status status =
        events->on_device(link->base.arg, frame, meta, length, &place->dst, &place->cookie);
    if (status != AMB_OK && status != AMB_ENOTSUP) {
        amb_ucx_link_break(link, status, "a frame was refused");
    }
    place->is_device = status == AMB_OK && place->dst != NULL;
    return status;
}

/* Lets UCX fetch a rendezvous into its place. UCX owns desc from here on. */
static ucs_status_t fetch(struct amb_ucx_link *link, void *desc, size_t length,
                          const struct place *place)
{
    struct amb_ucx_worker *worker = link->worker;
    struct amb_ucx_op *op = amb_ucx_op_get(link, AMB_UCX_OP_RECV);
    if (op == NULL) {
        /* The body was asked for: its owner hears that it never comes. */
        amb_ucx_link_break(link, AMB_ENOMEM, "no memory for a receive");
        (void)link->base.events->on_body(link->base.arg, place->cookie, AMB_ENOMEM);
        return UCS_ERR_NO_MEMORY;
    }
    op->cookie = place->cookie;
    op->expected = length;
    link->receiving_bytes += length;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = on_recv_done,
        .user_data = op,
        .memory_type = place->is_device ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };
    if (place->mem != NULL && place->mem->context == worker->context) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = place->mem->handle;
    }
    ucs_status_ptr_t request =
        amb_ucx_api.ucp_am_recv_data_nbx(worker->handle, desc, place->dst, length, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        amb_ucx_op_settle(op, UCS_PTR_STATUS(request));
    }
    return UCS_INPROGRESS;
}

static void store(struct amb_ucx_link *link, const void *data, size_t length, const uint8_t *meta,
                  size_t meta_len, void *dst, void *cookie)
{
    if (length > 0) {
        memcpy(dst, data, length);
    }
    if (meta_len > 0) {
        memcpy((uint8_t *)dst + length, meta, meta_len);
    }
    enum amb_status status = link->base.events->on_body(link->base.arg, cookie, AMB_OK);
    if (status != AMB_OK) {
        amb_ucx_link_break(link, status, "a body was refused");
    }
}

ucs_status_t amb_ucx_am_data(void *arg, const void *header, size_t header_length, void *data,
                             size_t length, const ucp_am_recv_param_t *param)
{
    struct amb_ucx_worker *worker = arg;
    const uint8_t *head = header;
    if (header_length < AMB_FRAME_HEAD_SIZE) {
        worker->foreign++;
        return UCS_OK;
    }
    struct amb_ucx_link *link =
        amb_ucx_find(worker, amb_get32(head + HEAD_AT_SESSION),
                     amb_get32(head + HEAD_AT_GENERATION), amb_get64(head + HEAD_AT_SECRET));
    if (link == NULL || link->base.is_down) {
        return UCS_OK;
    }
    struct amb_frame frame;
    if (amb_frame_decode(head, &frame) != AMB_OK) {
        amb_ucx_link_break(link, AMB_EPROTO, "a frame that is none");
        return UCS_OK;
    }
    bool has_body = amb_frame_has_body(frame.type);
    uint64_t body_len = amb_frame_body_len(&frame);
    /* Meta behind the head, with the end of data's padding if that lay with it. */
    size_t meta_len = header_length - AMB_FRAME_HEAD_SIZE;
    if ((meta_len != 0 && (!has_body || meta_len < frame.meta_len ||
                           meta_len - frame.meta_len >= AMB_PAYLOAD_PAD)) ||
        body_len != (uint64_t)length + meta_len) {
        amb_ucx_link_break(link, AMB_EPROTO, "a frame is longer or shorter than its head says");
        return UCS_OK;
    }
    link->base.stats.frames_received++;
    link->base.stats.bytes_received += AMB_FRAME_HEAD_SIZE + body_len;
    struct place place = {.dst = NULL};
    const uint8_t *meta = head + AMB_FRAME_HEAD_SIZE;
    bool is_fetched = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    if (__builtin_expect((frame.flags & AMB_FRAME_FLAG_DEVICE) != 0, 0) && is_fetched &&
        meta_len != 0) {
        const uint8_t *records = meta + (meta_len - frame.meta_len); /* Behind data's padding. */
        enum amb_status status = ask_for_device(link, &frame, records, length, &place);
        if (status != AMB_ENOTSUP) {
            return place.is_device ? fetch(link, data, length, &place) : UCS_OK;
        }
    }
    if (!ask_owner(link, &frame, body_len > 0, &place)) {
        return UCS_OK;
    }
    if (is_fetched) {
        memcpy((uint8_t *)place.dst + length, meta, meta_len);
        return fetch(link, data, length, &place);
    }
    store(link, data, length, meta, meta_len, place.dst, place.cookie);
    return UCS_OK;
}
