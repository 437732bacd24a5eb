/* SPDX-License-Identifier: Apache-2.0 */
/* A link's life, and the owner that hears of settled frames; its end is in ucx_leave.c. */
#include "wire/link/ucx/ucx_link.h"

#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/link/ucx/ucx_flow.h"
#include "wire/link/ucx/ucx_leave.h"
#include "wire/link/ucx/ucx_link_private.h"
#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_send.h"
#include "wire/link/ucx/ucx_table.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

#include <stdio.h>
#include <stdlib.h>

static void on_ep_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct amb_ucx_link *link = arg;
    (void)ep; /* may not be closed in here */
    link->is_peer_gone = true;
    amb_ucx_link_break(link, amb_ucx_status(status), amb_ucx_api.ucs_status_string(status));
}

/* ---- the end ---- */

static void link_free(struct amb_ucx_link *link)
{
    amb_assert(link->pending == 0 && link->ep == NULL);
    amb_list_remove(&link->node);
    amb_list_remove(&link->leave_node);
    amb_list_remove(&link->all_node);
    link->worker->link_count--;
    for (unsigned kind = 0; kind < AMB_FLOW_KINDS; kind++) {
        for (unsigned block = 0; block < AMB_UCX_FLOW_BLOCKS; block++) {
            free(link->flow[kind][block]);
        }
    }
    free(link);
}

/* Frees a link whose owner has closed it, once nothing of it is under way. */
static void free_if_over(struct amb_ucx_link *link)
{
    if (link->is_closing && link->pending == 0 && !link->is_in_close) {
        link->base.events->on_closed(link->base.arg);
        link_free(link);
    }
}

void amb_ucx_link_down(struct amb_ucx_link *link)
{
    amb_ucx_leave(link);
    if (link->is_closing) { /* closed from inside a callback */
        free_if_over(link);
        return;
    }
    link->base.events->on_down(link->base.arg, link->why, link->why_text);
}

/* Hands on what has settled of this link alone: no callback of others inside its close. */
static void hand_on_mine(struct amb_ucx_link *link)
{
    struct amb_list_node *head = &link->worker->settled;
    for (struct amb_list_node *node = head->next; node != head;) {
        struct amb_ucx_op *op = AMB_CONTAINER_OF(node, struct amb_ucx_op, node);
        struct amb_list_node *next = node->next;
        if (op->link == link) {
            amb_list_remove(node);
            amb_ucx_link_settled(op);
            next = head->next; /* more of it may have settled */
        }
        node = next;
    }
}

static bool link_close(struct amb_link *base)
{
    AMB_UCX_OURS;
    struct amb_ucx_link *link = amb_ucx_link_of(base);
    struct amb_ucx_worker *worker = link->worker;
    amb_assert(!link->is_closing);
    link->is_closing = true;
    link->base.is_down = true;
    amb_list_remove(&link->node);
    if (worker->is_progressing) { /* UCX may be on the stack: leave at the end of progress */
        amb_list_push_back(&worker->broken, &link->node);
        return false;
    }
    link->is_in_close = true;
    amb_ucx_leave(link);
    hand_on_mine(link);
    link->is_in_close = false;
    if (link->pending > 0) {
        return false;
    }
    link_free(link);
    return true;
}

/* ---- what has settled ---- */

static void hand_on_send(struct amb_ucx_link *link, struct amb_link_tx *tx, ucs_status_t ucs)
{
    enum amb_status status = AMB_OK;
    if (link->is_closing) { /* whether the peer took it is not known */
        status = AMB_ECANCELED;
    } else if (ucs != UCS_OK) {
        amb_ucx_link_break(link, amb_ucx_status(ucs), amb_ucx_api.ucs_status_string(ucs));
        status = AMB_ELOST;
    }
    link->base.queued--;
    link->base.queued_bytes -= AMB_FRAME_HEAD_SIZE + tx->data_len + tx->meta_len;
    link->base.events->on_sent(link->base.arg, tx, status);
}

static void hand_on_recv(struct amb_ucx_link *link, void *cookie, ucs_status_t ucs)
{
    enum amb_status status = AMB_OK;
    if (link->is_closing) {
        status = AMB_ECANCELED;
    } else if (ucs != UCS_OK || link->is_leaving) {
        enum amb_status why = ucs == UCS_ERR_MESSAGE_TRUNCATED ? AMB_EPROTO : amb_ucx_status(ucs);
        amb_ucx_link_break(link, why, amb_ucx_api.ucs_status_string(ucs));
        status = AMB_ELOST;
    }
    enum amb_status answer = link->base.events->on_body(link->base.arg, cookie, status);
    if (answer != AMB_OK) {
        amb_ucx_link_break(link, answer, "a body was refused");
    }
}

static void hand_on_flow(struct amb_ucx_link *link, ucs_status_t ucs)
{
    link->flow_pending--;
    if (ucs != UCS_OK) {
        amb_ucx_link_break(link, amb_ucx_status(ucs), amb_ucx_api.ucs_status_string(ucs));
    }
    amb_ucx_flow_flush(link);
}

void amb_ucx_link_settled(struct amb_ucx_op *op)
{
    struct amb_ucx_link *link = op->link;
    const struct amb_ucx_op settled = *op;
    amb_ucx_op_put(op);
    switch (settled.kind) {
    case AMB_UCX_OP_SEND:
        hand_on_send(link, settled.tx, settled.status);
        break;
    case AMB_UCX_OP_RECV:
        link->receiving_bytes -= settled.expected;
        hand_on_recv(link, settled.cookie, settled.status);
        break;
    case AMB_UCX_OP_FLOW:
        hand_on_flow(link, settled.status);
        break;
    case AMB_UCX_OP_FLUSH:
    case AMB_UCX_OP_WORD:
    case AMB_UCX_OP_CLOSE:
        break;
    }
    link->has_moved = true;
    amb_ucx_leave_on(link);
    free_if_over(link);
}

/* ---- the rest of the vtable: the worker polls, arms and waits for all its links at once ---- */

static void ucx_flush(struct amb_link *base)
{
    AMB_UCX_OURS;
    amb_ucx_flow_flush(amb_ucx_link_of(base));
}

static unsigned ucx_poll(struct amb_link *base, unsigned budget)
{
    (void)base;
    (void)budget;
    return 0;
}

static bool ucx_arm(struct amb_link *base, bool want_flow)
{
    (void)base;
    (void)want_flow;
    return true;
}

static void ucx_disarm(struct amb_link *base)
{
    (void)base;
}

static int ucx_fd(const struct amb_link *base)
{
    (void)base;
    return -1;
}

static void ucx_describe(const struct amb_link *base, char *out, size_t size)
{
    AMB_UCX_OURS;
    const struct amb_ucx_link *link =
        AMB_CONTAINER_OF((uintptr_t)base, const struct amb_ucx_link, base);
    char lanes[240] = "";
    if (link->ep != NULL) {
        amb_ucx_ep_lanes(link->ep, lanes, sizeof(lanes));
    }
    (void)snprintf(out, size, "ucx%s%s", lanes[0] == '\0' ? "" : " ", lanes);
}

/* The lanes to a worker's address are chosen when the endpoint is made. */
static uint64_t device_min(const struct amb_ucx_link *link)
{
    const struct amb_ucx_context *context = link->worker->context;
    char lanes[256];
    if (!context->takes_cuda || context->device_min != 0) {
        return context->takes_cuda ? context->device_min : UINT64_MAX;
    }
    amb_ucx_ep_lanes(link->ep, lanes, sizeof(lanes));
    return amb_ucx_lanes_reach_gpus(lanes) ? AMB_LINK_DEVICE_MIN : UINT64_MAX;
}

/* By its own model of its lanes. */
static uint64_t ucx_rate(const struct amb_link *base, uint64_t bytes)
{
    AMB_UCX_OURS;
    const struct amb_ucx_link *link =
        AMB_CONTAINER_OF((uintptr_t)base, const struct amb_ucx_link, base);
    const ucp_ep_evaluate_perf_param_t param = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE,
                                                .message_size = bytes};
    ucp_ep_evaluate_perf_attr_t attr = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};
    if (link->ep == NULL || amb_ucx_api.ucp_ep_evaluate_perf(link->ep, &param, &attr) != UCS_OK ||
        !(attr.estimated_time > 0)) {
        return 0;
    }
    return (uint64_t)((double)bytes / attr.estimated_time);
}

static const struct amb_link_ops ops = {
    .kind = AMB_LINK_UCX,
    .send = amb_ucx_link_send,
    .flow = amb_ucx_link_flow,
    .flush = ucx_flush,
    .poll = ucx_poll,
    .arm = ucx_arm,
    .disarm = ucx_disarm,
    .fd = ucx_fd,
    .close = link_close,
    .describe = ucx_describe,
    .rate = ucx_rate,
};

static enum amb_status ep_open(struct amb_ucx_link *link, const void *address)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_ep_error, .arg = link},
    };
    ucs_status_t ucs = amb_ucx_api.ucp_ep_create(link->worker->handle, &params, &link->ep);
    if (ucs != UCS_OK) {
        link->ep = NULL;
        amb_info("ucx: no endpoint: %s", amb_ucx_api.ucs_status_string(ucs));
        return ucs == UCS_ERR_UNREACHABLE ? AMB_EUNREACHABLE : AMB_EUCX;
    }
    return AMB_OK;
}

enum amb_status amb_ucx_link_create(struct amb_ucx_worker *worker, const void *address,
                                    size_t address_len, uint32_t session, uint32_t generation,
                                    uint64_t secret, const struct amb_link_events *events,
                                    void *arg, struct amb_link **out)
{
    AMB_UCX_OURS;
    amb_assert(worker != NULL && events != NULL);
    if (address_len == 0 || address_len > AMB_UCX_ADDRESS_MAX) {
        return AMB_EINVAL;
    }
    struct amb_ucx_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        return AMB_ENOMEM;
    }
    link->base.ops = &ops;
    link->base.events = events;
    link->base.arg = arg;
    link->base.takes_cuda = worker->context->takes_cuda;
    link->base.device_min = UINT64_MAX;
    link->worker = worker;
    link->session = session;
    link->generation = generation;
    link->secret = secret;
    amb_list_init(&link->node);
    amb_list_init(&link->leave_node);
    amb_list_init(&link->all_node);
    enum amb_status status = amb_ucx_table_add(worker, link);
    if (status != AMB_OK) {
        free(link);
        return status;
    }
    worker->link_count++;
    amb_list_push_back(&worker->links, &link->all_node);
    /* Taken before there is anything to close, so that a close can never want memory. */
    link->close = amb_ucx_op_get(link, AMB_UCX_OP_CLOSE);
    status = link->close == NULL ? AMB_ENOMEM : ep_open(link, address);
    if (status != AMB_OK) {
        if (link->close != NULL) {
            amb_ucx_op_put(link->close);
        }
        amb_ucx_table_remove(worker, link);
        link_free(link);
        return status;
    }
    link->base.device_min = device_min(link);
    /* UCX connects at the first message, and moves even 2 MiB eagerly until it has. */
    amb_ucx_flow_start(link);
    *out = &link->base;
    return AMB_OK;
}
