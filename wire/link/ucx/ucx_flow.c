/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow values. A flow message is an active message that is a header alone:
 *
 *      0 u32 session    8 u64 secret    20 u32 zero
 *      4 u32 generation 16 u32 count    24 count records: u32 kind, u32 handle, u64 value
 *
 * At most FLOW_PENDING_MAX are under way; a value that changes meanwhile is sent once, as its
 * newest. UCX keeps one order per peer, so flow does wait behind data that the socket has not taken
 * yet. The windows of the protocol above bound that data.
 *
 * Three counts mean something else: none connects two ends; two words, with a u64 nonce instead of
 * records, are said at the end (ucx_leave.c).
 */
#include "wire/link/ucx/ucx_flow.h"

#include "wire/base/assert.h"
#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_send.h"
#include "wire/link/ucx/ucx_table.h"

#include <stdlib.h>

#define FLOW_PENDING_MAX 2u
#define FLOW_HEAD_SIZE 24u
#define FLOW_RECORD_SIZE 16u
#define WORD_SIZE (FLOW_HEAD_SIZE + 8u)
#define FLOW_RECORDS_MAX ((AMB_UCX_HEAD_BUFFER - FLOW_HEAD_SIZE) / FLOW_RECORD_SIZE)

void amb_ucx_link_flow(struct amb_link *base, enum amb_flow_kind kind, uint32_t handle,
                       uint64_t value)
{
    struct amb_ucx_link *link = amb_ucx_link_of(base);
    amb_assert((unsigned)kind < AMB_FLOW_KINDS && handle < AMB_HANDLES_MAX);
    if (link->base.is_down) {
        return;
    }
    struct amb_ucx_flow_block **at = &link->flow[kind][handle / 64];
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL) {
            amb_ucx_link_break(link, AMB_ENOMEM, "no memory for a flow value");
            return;
        }
    }
    (*at)->values[handle % 64] = value;
    (*at)->dirty |= UINT64_C(1) << (handle % 64);
    link->flow_dirty[kind] = (uint16_t)(link->flow_dirty[kind] | (1u << (handle / 64)));
}

static bool is_dirty(const struct amb_ucx_link *link)
{
    for (unsigned kind = 0; kind < AMB_FLOW_KINDS; kind++) {
        if (link->flow_dirty[kind] != 0) {
            return true;
        }
    }
    return false;
}

/* Moves dirty values of one kind into records from `at`; returns how many, at most max. */
static size_t collect(struct amb_ucx_link *link, unsigned kind, uint8_t *at, size_t max)
{
    size_t count = 0;
    while (link->flow_dirty[kind] != 0 && count < max) {
        unsigned index = (unsigned)__builtin_ctz(link->flow_dirty[kind]);
        struct amb_ucx_flow_block *block = link->flow[kind][index];
        while (block->dirty != 0 && count < max) {
            unsigned bit = (unsigned)__builtin_ctzll(block->dirty);
            block->dirty &= block->dirty - 1;
            uint8_t *record = at + count * FLOW_RECORD_SIZE;
            amb_put32(record, kind);
            amb_put32(record + 4, index * 64 + bit);
            amb_put64(record + 8, block->values[bit]);
            count++;
        }
        if (block->dirty == 0) {
            link->flow_dirty[kind] =
                (uint16_t)(link->flow_dirty[kind] & (link->flow_dirty[kind] - 1u));
        }
    }
    return count;
}

static void put_head(const struct amb_ucx_link *link, uint8_t *head, uint32_t count)
{
    amb_put32(head, link->session);
    amb_put32(head + 4, link->generation);
    amb_put64(head + 8, link->secret);
    amb_put32(head + 16, count);
    amb_put32(head + 20, 0);
}

/* All that is dirty, or as much as fits; nothing is a message too. */
static ucs_status_ptr_t send_values(struct amb_ucx_link *link, struct amb_ucx_op *op)
{
    op->head = amb_pool_get(&link->worker->heads);
    if (op->head == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    size_t count = 0;
    for (unsigned kind = 0; kind < AMB_FLOW_KINDS; kind++) {
        count += collect(link, kind, op->head + FLOW_HEAD_SIZE + count * FLOW_RECORD_SIZE,
                         FLOW_RECORDS_MAX - count);
    }
    put_head(link, op->head, (uint32_t)count);
    const struct amb_ucx_am_parts parts = {
        .header = op->head,
        .header_len = FLOW_HEAD_SIZE + count * FLOW_RECORD_SIZE,
    };
    return amb_ucx_am_send(op, AMB_UCX_AM_FLOW, &parts);
}

void amb_ucx_flow_word(struct amb_ucx_link *link, uint32_t word)
{
    struct amb_ucx_op *op = amb_ucx_op_get(link, AMB_UCX_OP_WORD);
    if (op == NULL) {
        return;
    }
    op->head = amb_pool_get(&link->worker->heads);
    if (op->head == NULL) {
        amb_ucx_op_put(op);
        return;
    }
    put_head(link, op->head, word);
    amb_put64(op->head + FLOW_HEAD_SIZE, link->nonce);
    const struct amb_ucx_am_parts parts = {.header = op->head, .header_len = WORD_SIZE};
    ucs_status_ptr_t request = amb_ucx_am_send(op, AMB_UCX_AM_FLOW, &parts);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        amb_ucx_op_put(op);
    }
}

void amb_ucx_flow_start(struct amb_ucx_link *link)
{
    struct amb_ucx_op *op = amb_ucx_op_get(link, AMB_UCX_OP_FLOW);
    if (op == NULL) {
        amb_ucx_link_break(link, AMB_ENOMEM, "no memory for flow values");
        return;
    }
    ucs_status_ptr_t request = send_values(link, op);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        link->flow_pending++;
        return;
    }
    amb_ucx_op_put(op);
    if (request != NULL) {
        ucs_status_t ucs = UCS_PTR_STATUS(request);
        amb_ucx_link_break(link, amb_ucx_status(ucs), amb_ucx_api.ucs_status_string(ucs));
    }
}

void amb_ucx_flow_flush(struct amb_ucx_link *link)
{
    while (!link->base.is_down && link->flow_pending < FLOW_PENDING_MAX && is_dirty(link)) {
        amb_ucx_flow_start(link);
    }
}

/* The peer has said this; the steps that follow are in ucx_leave.c. */
static void take_word(struct amb_ucx_link *link, uint32_t word, uint64_t nonce)
{
    if (word == AMB_UCX_WORD_DONE) {
        link->is_peer_done = true;
        return;
    }
    link->has_peer_left = true;
    if (!link->is_leaving) {
        amb_ucx_link_break(link, AMB_ELOST, "the other end has closed the link");
    } else if (nonce > link->nonce) {
        link->is_second = true;
    }
    link->has_moved = true;
}

ucs_status_t amb_ucx_am_flow(void *arg, const void *header, size_t header_length, void *data,
                             size_t length, const ucp_am_recv_param_t *param)
{
    (void)data;
    (void)param;
    struct amb_ucx_worker *worker = arg;
    const uint8_t *head = header;
    if (header_length < FLOW_HEAD_SIZE) {
        worker->foreign++;
        return UCS_OK;
    }
    size_t count = amb_get32(head + 16);
    if (count == 0) {
        return UCS_OK; /* connects, and may come before our own link is there */
    }
    struct amb_ucx_link *link =
        amb_ucx_find(worker, amb_get32(head), amb_get32(head + 4), amb_get64(head + 8));
    if (link != NULL && (count == AMB_UCX_WORD_BYE || count == AMB_UCX_WORD_DONE) &&
        header_length == WORD_SIZE) {
        take_word(link, (uint32_t)count, amb_get64(head + FLOW_HEAD_SIZE));
        return UCS_OK;
    }
    if (link == NULL || link->base.is_down) {
        return UCS_OK;
    }
    if (count > FLOW_RECORDS_MAX || header_length != FLOW_HEAD_SIZE + count * FLOW_RECORD_SIZE ||
        length != 0) {
        amb_ucx_link_break(link, AMB_EPROTO, "flow values of a wrong length");
        return UCS_OK;
    }
    for (size_t i = 0; i < count && !link->base.is_down; i++) {
        const uint8_t *record = head + FLOW_HEAD_SIZE + i * FLOW_RECORD_SIZE;
        uint32_t kind = amb_get32(record);
        uint32_t handle = amb_get32(record + 4);
        if (kind >= AMB_FLOW_KINDS || handle >= AMB_HANDLES_MAX) {
            amb_ucx_link_break(link, AMB_EPROTO, "a flow value of nothing");
            break;
        }
        enum amb_status status = link->base.events->on_flow(
            link->base.arg, (enum amb_flow_kind)kind, handle, amb_get64(record + 8));
        if (status != AMB_OK) {
            amb_ucx_link_break(link, status, "a flow value was refused");
        }
    }
    return UCS_OK;
}
