/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DESIGN. Completions may arrive inside any call into UCX, also inside the very send that they
 * complete or inside a callback of another link. They join worker->settled, errors join
 * worker->broken, and progress hands both on after UCX has returned. An owner is then free to send.
 * Closing an endpoint, never allowed inside its error callback, is then safe.
 *
 * Frames find their link by (session, generation, secret), never by a pointer that was on the wire.
 * After a forced close thousands of a peer's messages still arrive.
 */
#include "wire/link/ucx/ucx_worker.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/link/ucx/ucx_flow.h"
#include "wire/link/ucx/ucx_leave.h"
#include "wire/link/ucx/ucx_link_private.h"
#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_receive.h"
#include "wire/link/ucx/ucx_table.h"
#include "wire/link/ucxlib/ucx_prove.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

#include <stdlib.h>

/* Rounds of ucp_worker_progress in one of ours, so that a busy peer cannot keep the loop. */
#define PROGRESS_ROUNDS 32u
/* At least so many at the end of a worker with links that were forced to end. */
#define SETTLE_ROUNDS 100u

static bool set_handler(struct amb_ucx_worker *worker, enum amb_ucx_am id,
                        ucp_am_recv_callback_t handler)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = (unsigned)id,
        .cb = handler,
        .arg = worker,
    };
    return amb_ucx_api.ucp_worker_set_am_recv_handler(worker->handle, &param) == UCS_OK;
}

static enum amb_status query_handle(struct amb_ucx_worker *worker, bool serialized)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS |
                                            UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER |
                                            UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucs_status_t ucs = amb_ucx_api.ucp_worker_query(worker->handle, &attr);
    if (ucs != UCS_OK) {
        amb_error("ucx: a worker without an address: %s", amb_ucx_api.ucs_status_string(ucs));
        return AMB_EUCX;
    }
    worker->address = attr.address;
    worker->address_len = attr.address_length;
    if (attr.max_am_header < AMB_UCX_HEAD_BUFFER || worker->address_len > AMB_UCX_ADDRESS_MAX ||
        (serialized && attr.thread_mode < UCS_THREAD_MODE_SERIALIZED)) {
        amb_error("ucx: this UCX does too little: headers of %zu, addresses of %zu, thread mode %d",
                  attr.max_am_header, worker->address_len, (int)attr.thread_mode);
        return AMB_ENOTSUP;
    }
    return AMB_OK;
}

static enum amb_status init_handle(struct amb_ucx_worker *worker, bool serialized)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = serialized ? UCS_THREAD_MODE_SERIALIZED : UCS_THREAD_MODE_SINGLE,
    };
    amb_ucx_process_lock();
    ucs_status_t ucs =
        amb_ucx_api.ucp_worker_create(worker->context->handle, &params, &worker->handle);
    amb_ucx_process_unlock();
    if (ucs != UCS_OK) {
        amb_error("ucx: no worker: %s", amb_ucx_api.ucs_status_string(ucs));
        worker->handle = NULL;
        return ucs == UCS_ERR_NO_MEMORY ? AMB_ENOMEM : AMB_EUCX;
    }
    enum amb_status status = query_handle(worker, serialized);
    if (status != AMB_OK) {
        return status;
    }
    if (!set_handler(worker, AMB_UCX_AM_DATA, amb_ucx_am_data) ||
        !set_handler(worker, AMB_UCX_AM_FLOW, amb_ucx_am_flow)) {
        amb_error("ucx: a worker without active messages");
        return AMB_EUCX;
    }
    if (amb_ucx_api.ucp_worker_get_efd(worker->handle, &worker->fd) != UCS_OK) {
        amb_error("ucx: a worker without an event descriptor");
        return AMB_EUCX;
    }
    return AMB_OK;
}

enum amb_status amb_ucx_worker_create(struct amb_ucx_context *context, bool serialized,
                                      struct amb_ucx_worker **out)
{
    AMB_UCX_OURS;
    amb_assert(context != NULL);
    char error[256];
    if (amb_ucx_context_prove(context, error, sizeof(error)) != AMB_OK) {
        amb_error("ucx: no worker: %s", error);
        return AMB_EUCX;
    }
    struct amb_ucx_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return AMB_ENOMEM;
    }
    worker->context = context;
    worker->fd = -1;
    amb_list_init(&worker->settled);
    amb_list_init(&worker->broken);
    amb_list_init(&worker->leaving);
    amb_list_init(&worker->links);
    amb_list_init(&worker->under_way);
    amb_pool_init(&worker->ops, sizeof(struct amb_ucx_op), 64, 0);
    amb_pool_init(&worker->heads, AMB_UCX_HEAD_BUFFER, 8, 0);
    enum amb_status status = amb_ucx_table_init(worker);
    if (status != AMB_OK) {
        goto fail;
    }
    status = init_handle(worker, serialized);
    if (status != AMB_OK) {
        goto fail;
    }
    *out = worker;
    return AMB_OK;

fail:
    amb_ucx_worker_destroy(&worker);
    return status;
}

static unsigned hand_on(struct amb_ucx_worker *worker);

void amb_ucx_worker_force(struct amb_ucx_worker *worker)
{
    AMB_UCX_OURS;
    AMB_LIST_FOR_EACH (node, &worker->links) {
        struct amb_ucx_link *link = AMB_CONTAINER_OF(node, struct amb_ucx_link, all_node);
        amb_assert(link->is_closing);
        amb_ucx_leave_now(link);
    }
    if (worker->settle_by_ns == 0) {
        worker->settle_by_ns = amb_clock_monotonic_ns() + AMB_UCX_SETTLE_NS;
    }
}

/* A process that was stopped since they were forced has had no turn in its time. */
static bool may_settle(const struct amb_ucx_worker *worker, unsigned round)
{
    return round < SETTLE_ROUNDS || amb_clock_monotonic_ns() < worker->settle_by_ns;
}

/*
 * Links that still wait for their peers wait no longer. UCX 1.13 aborts where a worker goes before
 * its requests have, so these get a moment to settle. Should any be left, nothing uses their memory
 * once the worker is gone.
 */
static void destroy_handle(struct amb_ucx_worker *worker)
{
    worker->is_progressing = true;
    (void)hand_on(worker);
    amb_ucx_worker_force(worker);
    for (unsigned round = 0; worker->link_count > 0 && may_settle(worker, round); round++) {
        (void)hand_on(worker);
        (void)amb_ucx_api.ucp_worker_progress(worker->handle);
    }
    amb_ucx_api.ucp_worker_destroy(worker->handle);
    AMB_LIST_FOR_EACH_SAFE (node, &worker->under_way) {
        amb_ucx_op_settle(AMB_CONTAINER_OF(node, struct amb_ucx_op, node), UCS_ERR_CANCELED);
    }
    (void)hand_on(worker);
    amb_assert(worker->link_count == 0);
}

void amb_ucx_worker_destroy(struct amb_ucx_worker **worker)
{
    AMB_UCX_OURS;
    struct amb_ucx_worker *self = *worker;
    if (self == NULL) {
        return;
    }
    if (self->address != NULL) {
        amb_ucx_api.ucp_worker_release_address(self->handle, self->address);
    }
    if (self->handle != NULL) {
        destroy_handle(self);
    }
    amb_pool_fini(&self->ops);
    amb_pool_fini(&self->heads);
    amb_ucx_table_fini(self);
    free(self);
    *worker = NULL;
}

const void *amb_ucx_worker_address(const struct amb_ucx_worker *worker, size_t *len)
{
    *len = worker->address_len;
    return worker->address;
}

int amb_ucx_worker_fd(const struct amb_ucx_worker *worker)
{
    return worker->fd;
}

uint64_t amb_ucx_worker_foreign(const struct amb_ucx_worker *worker)
{
    return worker->foreign;
}

/* Hands on what has settled and broken; returns how much. UCX is not on the stack. */
static unsigned hand_on(struct amb_ucx_worker *worker)
{
    unsigned done = 0;
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&worker->settled)) != NULL) {
        amb_ucx_link_settled(AMB_CONTAINER_OF(node, struct amb_ucx_op, node));
        done++;
    }
    /* Afterwards, so that frames that were whole when a peer died still count. */
    while ((node = amb_list_pop_front(&worker->broken)) != NULL) {
        amb_ucx_link_down(AMB_CONTAINER_OF(node, struct amb_ucx_link, node));
        done++;
    }
    return done;
}

unsigned amb_ucx_worker_progress(struct amb_ucx_worker *worker)
{
    AMB_UCX_OURS;
    if (worker->is_progressing) {
        return 0; /* called from one of its own callbacks */
    }
    worker->is_progressing = true;
    unsigned done = hand_on(worker);
    for (unsigned round = 0; round < PROGRESS_ROUNDS; round++) {
        unsigned moved = amb_ucx_api.ucp_worker_progress(worker->handle);
        moved += hand_on(worker);
        if (!amb_list_is_empty(&worker->leaving)) {
            amb_ucx_leave_turn(worker);
        }
        if (moved == 0) {
            break;
        }
        done += moved;
    }
    worker->is_progressing = false;
    return done;
}

bool amb_ucx_worker_arm(struct amb_ucx_worker *worker)
{
    AMB_UCX_OURS;
    if (!amb_list_is_empty(&worker->settled) || !amb_list_is_empty(&worker->broken)) {
        return false;
    }
    ucs_status_t ucs = amb_ucx_api.ucp_worker_arm(worker->handle);
    if (ucs != UCS_OK && ucs != UCS_ERR_BUSY) {
        amb_error("ucx: arming a worker failed: %s", amb_ucx_api.ucs_status_string(ucs));
    }
    return ucs == UCS_OK;
}

int64_t amb_ucx_worker_sleep_max_ns(const struct amb_ucx_worker *worker)
{
    if (worker->link_count == 0) {
        return AMB_NS_PER_SEC;
    }
    /* Something of ours is under way: its end may show without a ring of the bell. Each link keeps
     * one operation in reserve. */
    bool is_busy = worker->ops.used > worker->link_count || !amb_list_is_empty(&worker->leaving);
    return (is_busy ? 100 : 500) * AMB_NS_PER_MS;
}
