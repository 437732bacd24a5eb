/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way out. One frame is one active message:
 *
 *   header: head (128 B) [| meta]     data: data [| meta]
 *
 * meta rides in the header where it is small, so data is one piece. A rendezvous then moves it from
 * the sender's registered memory straight into the receiver's. The header's length says which.
 */
#include "wire/link/ucx/ucx_send.h"

#include "wire/base/assert.h"
#include "wire/link/ucx/ucx_op.h"

#include <string.h>

static void on_send_done(void *request, ucs_status_t status, void *user_data)
{
    amb_ucx_api.ucp_request_free(request);
    amb_ucx_op_settle(user_data, status);
}

_Static_assert(sizeof(struct amb_record) + AMB_PROPS_MAX + AMB_PAYLOAD_PAD <=
                   AMB_UCX_META_IN_HEAD_MAX,
               "what is sent out of a GPU's memory is one message, whose meta rides in the head");

/* False without memory. */
static bool parts_of(struct amb_ucx_op *op, struct amb_ucx_am_parts *parts)
{
    struct amb_link_tx *tx = op->tx;
    struct amb_ucx_worker *worker = op->link->worker;
    *parts = (struct amb_ucx_am_parts){.header = tx->head, .header_len = AMB_FRAME_HEAD_SIZE};
    if (tx->data_len > 0) {
        parts->buffer = tx->data;
        parts->count = tx->data_len;
        parts->is_device = tx->is_device;
        /* A registration of another context would crash UCX. */
        if (tx->mem != NULL && tx->mem->context == worker->context) {
            parts->memh = tx->mem->handle;
        }
    }
    if (tx->meta_len == 0) {
        return true;
    }
    if (tx->data_len == 0) {
        parts->buffer = tx->meta;
        parts->count = tx->meta_len;
        return true;
    }
    if ((const uint8_t *)tx->data + tx->data_len == tx->meta &&
        !tx->is_device) { /* one piece, one registration */
        parts->count += tx->meta_len;
        return true;
    }
    if (tx->meta_len <= AMB_UCX_META_IN_HEAD_MAX) {
        op->head = amb_pool_get(&worker->heads);
        if (op->head == NULL) {
            return false;
        }
        memcpy(op->head, tx->head, AMB_FRAME_HEAD_SIZE);
        uint32_t zeros = tx->is_pad_apart ? tx->data_pad : 0;
        memset(op->head + AMB_FRAME_HEAD_SIZE, 0, zeros);
        memcpy(op->head + AMB_FRAME_HEAD_SIZE + zeros, tx->meta, tx->meta_len - zeros);
        parts->header = op->head;
        parts->header_len += tx->meta_len;
        return true;
    }
    amb_assert(!tx->is_device); /* UCX takes no list of two kinds; senders keep meta small. */
    op->iov[0] = (ucp_dt_iov_t){.buffer = (void *)(uintptr_t)tx->data, .length = tx->data_len};
    op->iov[1] = (ucp_dt_iov_t){.buffer = (void *)(uintptr_t)tx->meta, .length = tx->meta_len};
    parts->buffer = op->iov;
    parts->count = 2;
    parts->is_iov = true;
    parts->memh = NULL;
    return true;
}

ucs_status_ptr_t amb_ucx_am_send(struct amb_ucx_op *op, enum amb_ucx_am id,
                                 const struct amb_ucx_am_parts *parts)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = on_send_done,
        .user_data = op,
        /* Said, so that nothing is detected: that would cost every message. */
        .memory_type = parts->is_device ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };
    if (parts->is_device) { /* Else UCX has it copied to the host up to a size of its own. */
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_RNDV;
    }
    if (parts->is_iov) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = UCP_DATATYPE_IOV;
    }
    if (parts->memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = parts->memh;
    }
    return amb_ucx_api.ucp_am_send_nbx(op->link->ep, (unsigned)id, parts->header, parts->header_len,
                                       parts->buffer, parts->count, &param);
}

/* The answer of a link that is down to a send. */
static enum amb_status down_status(const struct amb_ucx_link *link)
{
    return link->why != AMB_OK ? link->why : AMB_ECLOSED;
}

static void encode_head(const struct amb_ucx_link *link, struct amb_link_tx *tx)
{
    struct amb_frame frame = *tx->frame;
    frame.session = link->session;
    frame.generation = link->generation;
    frame.secret = link->secret;
    amb_frame_encode(&frame, tx->head);
    bool has_body = amb_frame_has_body(frame.type);
    tx->data_len = has_body ? amb_frame_body_data(&frame) - tx->data_pad : 0;
    tx->meta_len = has_body ? frame.meta_len + tx->data_pad : 0;
}

enum amb_status amb_ucx_link_send(struct amb_link *base, struct amb_link_tx *tx)
{
    AMB_UCX_OURS;
    struct amb_ucx_link *link = amb_ucx_link_of(base);
    if (link->base.is_down) {
        return down_status(link);
    }
    struct amb_ucx_op *op = amb_ucx_op_get(link, AMB_UCX_OP_SEND);
    if (op == NULL) {
        amb_ucx_link_break(link, AMB_ENOMEM, "no memory for a send");
        return AMB_ENOMEM;
    }
    op->tx = tx;
    encode_head(link, tx);
    struct amb_ucx_am_parts parts;
    ucs_status_ptr_t request = parts_of(op, &parts) ? amb_ucx_am_send(op, AMB_UCX_AM_DATA, &parts)
                                                    : UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (UCS_PTR_IS_ERR(request)) {
        ucs_status_t ucs = UCS_PTR_STATUS(request);
        amb_ucx_op_put(op);
        amb_ucx_link_break(link, amb_ucx_status(ucs), amb_ucx_api.ucs_status_string(ucs));
        return down_status(link);
    }
    uint64_t bytes = AMB_FRAME_HEAD_SIZE + tx->data_len + tx->meta_len;
    link->base.stats.frames_sent++;
    link->base.stats.bytes_sent += bytes;
    if (request == NULL) {
        amb_ucx_op_put(op);
        return AMB_OK;
    }
    link->base.queued++;
    link->base.queued_bytes += bytes;
    return AMB_EAGAIN;
}
