/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages as UCX hands them on: a head of any length, and data. Nothing of UCX runs. A
 * message that is to be fetched is fetched at once, and its end comes with the next turn.
 *
 *   kind, 1 byte | head's length, 1 | data's length, 2 | the head | the data, if it is not fetched
 */
#include "tests/fuzz/fuzz_target.h"
#include "wire/codec/bytes.h"
#include "wire/link/ucx/ucx_flow.h"
#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_receive.h"
#include "wire/link/ucx/ucx_table.h"

#define SESSION 3u
#define GENERATION 5u
#define SECRET UINT64_C(0x1122334455667788)
#define BODY_MAX (UINT64_C(96) << 10)
#define MESSAGE_HEAD 4u

/* Bits of a kind. */
enum {
    KIND_FLOW = 1,    /* flow values, else a frame */
    KIND_FETCHED = 2, /* a rendezvous */
    KIND_OURS = 4,    /* it names the link */
    KIND_RIGHT = 8,   /* a frame's head is one, and its lengths are right */
};

/* ---- the owner of the link ---- */

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct fuzz_target *target = arg;
    (void)mem;
    uint64_t len = fuzz_note_frame(target, frame);
    if (frame->handle == 666) {
        return AMB_EPROTO;
    }
    if (len != 0 && len <= BODY_MAX) {
        *dst = *cookie = fuzz_body_begin(target, len);
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct fuzz_target *target = arg;
    amb_assert(cookie != NULL && cookie == target->open && status == AMB_OK);
    fuzz_body_end(target);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    fuzz_note_flow(arg, kind, handle, value);
    return value == 666 ? AMB_EPROTO : AMB_OK;
}

static const struct amb_link_events events = {
    .on_frame = on_frame, .on_body = on_body, .on_flow = on_flow};

/* ---- in UCX's place ---- */

/* All of it is there at once. */
static ucs_status_ptr_t fetch_now(ucp_worker_h worker, void *desc, void *buffer, size_t count,
                                  const ucp_request_param_t *param)
{
    (void)worker, (void)desc, (void)param;
    memset(buffer, 0x5a, count);
    return NULL;
}

/* As the next progress does: fetched bodies are whole. */
static void settle(struct amb_ucx_worker *worker, struct fuzz_target *target)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&worker->settled)) != NULL) {
        struct amb_ucx_op *op = AMB_CONTAINER_OF(node, struct amb_ucx_op, node);
        amb_assert(op->status == UCS_OK && op->cookie == target->open);
        op->link->receiving_bytes -= op->expected;
        amb_assert(on_body(target, op->cookie, AMB_OK) == AMB_OK);
        amb_ucx_op_put(op);
    }
}

/* ---- messages ---- */

/* Writes what the kind says over the head. A right one keeps its handle, and meta lies with it. */
static void make_head(uint8_t *head, size_t len, size_t data_len, unsigned kind)
{
    size_t at = (kind & KIND_FLOW) != 0 ? 0 : 8;
    if ((kind & KIND_RIGHT) != 0 && at != 0 && len >= AMB_FRAME_HEAD_SIZE) {
        const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                        .handle = amb_get16(head) % AMB_HANDLES_MAX,
                                        .count = 1,
                                        .meta_len = (uint32_t)(len - AMB_FRAME_HEAD_SIZE),
                                        .data_len = data_len,
                                        .seq = 1};
        amb_frame_encode(&frame, head);
    }
    if ((kind & KIND_OURS) != 0 && len >= at + 16) {
        amb_put32(head + at, SESSION);
        amb_put32(head + at + 4, GENERATION);
        amb_put64(head + at + 8, SECRET);
    }
}

/* Returns how many bytes of the input it has used. */
static size_t message(struct amb_ucx_worker *worker, const uint8_t *data, size_t len)
{
    unsigned kind = data[0];
    size_t head_len = data[1], data_len = (size_t)data[2] | (size_t)data[3] << 8;
    bool is_fetched = (kind & KIND_FETCHED) != 0;
    data += MESSAGE_HEAD;
    len -= MESSAGE_HEAD;
    head_len = head_len < len ? head_len : len;
    if (!is_fetched) {
        data_len = data_len < len - head_len ? data_len : len - head_len;
    }
    uint8_t *head = fuzz_copy(data, head_len);
    uint8_t *body = fuzz_copy(data + head_len, is_fetched ? 0 : data_len);
    const ucp_am_recv_param_t param = {.recv_attr = is_fetched ? UCP_AM_RECV_ATTR_FLAG_RNDV
                                                               : UCP_AM_RECV_ATTR_FLAG_DATA};
    make_head(head, head_len, data_len, kind);
    ucs_status_t status = (kind & KIND_FLOW) != 0
                              ? amb_ucx_am_flow(worker, head, head_len, body, data_len, &param)
                              : amb_ucx_am_data(worker, head, head_len, body, data_len, &param);
    amb_assert(status == UCS_OK || (status == UCS_INPROGRESS && is_fetched));
    free(head);
    free(body);
    return MESSAGE_HEAD + head_len + (is_fetched ? 0 : data_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct amb_ucx_worker worker;
    struct fuzz_target target = {0};
    struct amb_ucx_link *link = calloc(1, sizeof(*link));
    amb_assert(link != NULL);
    if (worker.buckets == NULL) {
        amb_assert(amb_ucx_table_init(&worker) == AMB_OK);
        amb_pool_init(&worker.ops, sizeof(struct amb_ucx_op), 8, 0);
        amb_list_init(&worker.under_way);
        amb_list_init(&worker.settled);
        amb_list_init(&worker.broken);
        amb_ucx_api.ucp_am_recv_data_nbx = fetch_now;
    }
    link->base.events = &events;
    link->base.arg = &target;
    link->worker = &worker;
    link->session = SESSION;
    link->generation = GENERATION;
    link->secret = SECRET;
    amb_list_init(&link->node);
    amb_assert(amb_ucx_table_add(&worker, link) == AMB_OK);
    while (len >= MESSAGE_HEAD && !link->base.is_down) {
        size_t used = message(&worker, data, len);
        settle(&worker, &target);
        data += used;
        len -= used;
    }
    amb_assert(link->pending == 0 && link->receiving_bytes == 0 && target.open == NULL);
    amb_assert(link->base.is_down == (link->why != AMB_OK));
    amb_list_remove(&link->node);
    amb_ucx_table_remove(&worker, link);
    free(link);
    return 0;
}
