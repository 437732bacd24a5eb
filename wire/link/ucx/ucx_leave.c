/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DESIGN. How a link ends. A forced close of an endpoint does three things that are in the way:
 *  - it tells the peer nothing while this worker lives: the socket stays, for what the peer sends;
 *  - it cancels what is under way, so that a body may be half there;
 *  - UCX 1.13 to 1.22 may use freed memory, where both ends are forced while bytes of one are stuck
 *    in its socket. A turn that finds that socket both writable and readable first reads the peer's
 *    farewell. That destroys the endpoint, whose turn to write comes next.
 * So both ends agree first:
 *
 *     bye ──► ◄── bye     nothing new is sent or taken, what is under way settles
 *     done ─► ◄─ done     nothing is under way here, nothing more will come
 *     flush, forced close, free
 *
 * A peer that UCX knows to be dead needs none of that. One that is stopped, or not looked after, is
 * forced after LEAVE_NS without a sign of life, or longer where much is under way. The second of
 * the two, told by the first one's bye, waits PEER_LEAVE_NS, so they are never forced at once.
 * Where byes cross, the higher nonce is the first. Time in which this worker made no progress does
 * not count: it may be we who were stopped.
 */
#include "wire/link/ucx/ucx_leave.h"

#include "wire/base/clock.h"
#include "wire/base/hash.h"
#include "wire/link/ucx/ucx_flow.h"
#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_table.h"

#define LEAVE_NS (300 * AMB_NS_PER_MS)
#define PEER_LEAVE_NS (3 * AMB_NS_PER_SEC)
/* Past this we ourselves did not run: a worker with nothing to do sleeps 100 ms between turns. */
#define STALL_NS (300 * AMB_NS_PER_MS)
/* An operation under way gives no sign until it is through; slower than 100 MB/s it is lost. */
#define NS_PER_BYTE 10

static void on_op_done(void *request, ucs_status_t status, void *user_data)
{
    amb_ucx_api.ucp_request_free(request);
    amb_ucx_op_settle(user_data, status);
}

/* All that is under way settles, now or later; link->close does so last. */
static void force(struct amb_ucx_link *link)
{
    struct amb_ucx_op *op = link->close;
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send = on_op_done,
        .user_data = op,
    };
    ucp_ep_h ep = link->ep;
    amb_list_remove(&link->leave_node);
    amb_ucx_table_remove(link->worker, link);
    link->ep = NULL;
    link->close = NULL;
    ucs_status_ptr_t request = amb_ucx_api.ucp_ep_close_nbx(ep, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        amb_ucx_op_settle(op, UCS_PTR_STATUS(request));
    }
}

static void flush(struct amb_ucx_link *link)
{
    struct amb_ucx_op *op = amb_ucx_op_get(link, AMB_UCX_OP_FLUSH);
    if (op == NULL) {
        return;
    }
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_op_done,
        .user_data = op,
    };
    ucs_status_ptr_t request = amb_ucx_api.ucp_ep_flush_nbx(link->ep, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        amb_ucx_op_put(op);
    }
}

/* Nothing of the link is under way: only the close is in reserve. */
static bool is_drained(const struct amb_ucx_link *link)
{
    return link->pending == 1;
}

void amb_ucx_leave_on(struct amb_ucx_link *link)
{
    if (!link->is_leaving || link->ep == NULL) {
        return;
    }
    if (!link->is_peer_gone) {
        if (link->has_peer_left && is_drained(link) && !link->is_done) {
            link->is_done = true;
            amb_ucx_flow_word(link, AMB_UCX_WORD_DONE);
        }
        if (link->is_done && is_drained(link) && !link->is_flushed) {
            link->is_flushed = true;
            flush(link);
        }
        if (!link->is_flushed || !is_drained(link) || !link->is_peer_done) {
            return;
        }
    }
    force(link);
}

static void wait_from(struct amb_ucx_link *link, int64_t now_ns)
{
    int64_t under_way = (int64_t)(link->base.queued_bytes + link->receiving_bytes);
    int64_t until_ns =
        now_ns + (link->is_second ? PEER_LEAVE_NS : LEAVE_NS) + under_way * NS_PER_BYTE;
    if (until_ns > link->leave_by_ns) {
        link->leave_by_ns = until_ns;
    }
}

void amb_ucx_leave(struct amb_ucx_link *link)
{
    struct amb_ucx_worker *worker = link->worker;
    if (link->ep == NULL || link->is_leaving) {
        return;
    }
    link->is_leaving = true;
    const int64_t now_ns = amb_clock_monotonic_ns();
    link->is_second = link->has_peer_left;
    wait_from(link, now_ns);
    if (amb_list_is_empty(&worker->leaving)) {
        worker->leave_seen_ns = now_ns;
    }
    amb_list_push_back(&worker->leaving, &link->leave_node);
    if (!link->is_peer_gone) {
        amb_random_bytes(&link->nonce, sizeof(link->nonce));
        amb_ucx_flow_word(link, AMB_UCX_WORD_BYE);
    }
    amb_ucx_leave_on(link);
}

void amb_ucx_leave_turn(struct amb_ucx_worker *worker)
{
    const int64_t now_ns = amb_clock_monotonic_ns();
    const int64_t stall_ns = now_ns - worker->leave_seen_ns;
    worker->leave_seen_ns = now_ns;
    AMB_LIST_FOR_EACH_SAFE (node, &worker->leaving) {
        struct amb_ucx_link *link = AMB_CONTAINER_OF(node, struct amb_ucx_link, leave_node);
        if (stall_ns > STALL_NS) {
            link->leave_by_ns += stall_ns;
        }
        if (link->has_moved) {
            link->has_moved = false;
            wait_from(link, now_ns);
        }
        if (now_ns >= link->leave_by_ns) {
            force(link);
        } else {
            amb_ucx_leave_on(link);
        }
    }
}

void amb_ucx_leave_now(struct amb_ucx_link *link)
{
    if (link->ep != NULL) {
        force(link);
    }
}
