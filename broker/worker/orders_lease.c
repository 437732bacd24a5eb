/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_lease.h"

#include "broker/base/trust_group.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/limbo.h"
#include "broker/memory/maker.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/reclaim.h"
#include "broker/worker/orders_private.h"
#include "wire/base/numa.h"

static void lease_failed(struct amb_shard *shard, struct amb_order_lease *ask,
                         enum amb_status status, const char *why)
{
    amb_stat_add(&shard->stats->leases_refused, 1);
    ask->order.status = status;
    ask->why = why;
    amb_order_answer(&ask->order);
}

/* The lease is whole: a descriptor for its client, or commits may name it. */
static void lease_filled(struct amb_shard *shard, struct amb_order_lease *ask,
                         struct amb_segment_lease *lease)
{
    if (lease->state == AMB_LEASE_OFFERED) {
        ask->size = lease->segment->size;
        if (amb_segment_open_writer(lease->segment, &ask->fd) != AMB_OK) {
            amb_segment_lease_close(lease);
            lease_failed(shard, ask, AMB_ELIMIT, "no descriptor left");
            return;
        }
    }
    amb_order_answer(&ask->order);
}

/* On the worker again. */
static void lease_passed(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_order_lease *ask = AMB_CONTAINER_OF(mail, struct amb_order_lease, order.mail);
    struct amb_session *session = amb_order_session(shard, &ask->order);
    struct amb_segment_lease *lease =
        session == NULL ? NULL : amb_segment_lease_find(&session->book, ask->segment);
    if (lease == NULL) {
        amb_segment_lease_pass_fini(&ask->pass);
        lease_failed(shard, ask, AMB_ECLOSED, "closed meanwhile");
        return;
    }
    enum amb_status status = amb_segment_lease_pass_end(lease, &ask->pass);
    if (status != AMB_OK) {
        lease_failed(shard, ask, status, "the host's memory is used up");
    } else {
        lease_filled(shard, ask, lease);
    }
}

/* On the maker: a part, then others' work, then the next part. */
static void lease_pass(struct amb_mail *mail, void *owner)
{
    struct amb_maker *maker = owner;
    struct amb_order_lease *ask = AMB_CONTAINER_OF(mail, struct amb_order_lease, order.mail);
    /* The client's word: a number that no node has means any. */
    amb_maker_near(maker, ask->node <= AMB_NUMA_MAX ? (int)ask->node - 1 : AMB_NUMA_ANY);
    if (amb_segment_lease_pass_step(&ask->pass) && !maker->is_stopping) {
        amb_mail_post(&maker->inbox, mail, lease_pass);
    } else {
        amb_mail_post(&ask->order.shard->inbox, mail, lease_passed);
    }
}

static void lease_begin_pass(struct amb_shard *shard, struct amb_order_lease *ask,
                             struct amb_segment_lease *lease)
{
    enum amb_status status = amb_segment_lease_pass_begin(lease, &ask->pass);
    if (status != AMB_OK) {
        lease_failed(shard, ask, status, "no descriptor left");
        return;
    }
    if (shard->memory.maker != NULL) {
        amb_mail_post(&shard->memory.maker->inbox, &ask->order.mail, lease_pass);
        return;
    }
    while (amb_segment_lease_pass_step(&ask->pass)) {
    }
    amb_mail_post(&shard->inbox, &ask->order.mail, lease_passed);
}

/* There are no pages to be made: it is whole at once. */
static void lease_open_gpu(struct amb_shard *shard, struct amb_session *session,
                           struct amb_order_lease *ask)
{
    const char *why = "this client is not trusted with GPU memory (memory.cuda.trust)";
    struct amb_segment_lease *lease;
    bool may_map = session->may_map_gpu;
    if (may_map && !amb_gpu_pool_claim(ask->pool, session->tenant)) {
        why = "that GPU's memory is another tenant's";
        may_map = false;
    }
    enum amb_status status = may_map
                                 ? amb_segment_lease_open_gpu(shard, &session->book, ask->pool,
                                                              ask->slot, ask->slots, &lease, &why)
                                 : AMB_EFORBIDDEN;
    if (status != AMB_OK) {
        lease_failed(shard, ask, status, why);
        return;
    }
    ask->segment = lease->segment->id;
    ask->size = lease->segment->size;
    ask->gpu_offset = lease->segment->gpu_offset;
    amb_order_answer(&ask->order);
}

static void lease_again(struct amb_mail *mail, void *owner)
{
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    order->kind->run(owner, order);
}

/* On the maker. */
static void lease_waits(struct amb_mail *mail, void *owner)
{
    struct amb_order_lease *ask = AMB_CONTAINER_OF(mail, struct amb_order_lease, order.mail);
    ask->wait =
        (struct amb_maker_wait){.mail = mail, .to = &ask->order.shard->inbox, .fn = lease_again};
    amb_maker_wait(owner, &ask->wait);
}

/* There is no memory, but the maker (is_coming) or clients are unmapping some just now: the order
 * is tried again. */
static bool lease_may_wait(struct amb_shard *shard, struct amb_order_lease *ask, uint64_t size,
                           bool is_coming)
{
    int64_t now_ns = amb_clock_monotonic_ns();
    if (ask->asked_ns == 0) {
        ask->asked_ns = now_ns;
    }
    if (shard->memory.maker == NULL || now_ns - ask->asked_ns > AMB_LIMBO_WAIT_NS ||
        (!is_coming &&
         !amb_limbo_may_give(shard->memory.bufpool.options.budget, size / 2, now_ns))) {
        return false;
    }
    amb_mail_post(&shard->memory.maker->inbox, &ask->order.mail, lease_waits);
    return true;
}

static void lease_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    ask->fd = -1;
    struct amb_session *session = amb_order_session(shard, order);
    if (session == NULL || !session->may_map) {
        lease_failed(shard, ask, AMB_ENOTSUP, "this client shares no memory with the broker");
        return;
    }
    if (ask->pool != NULL) {
        lease_open_gpu(shard, session, ask);
        return;
    }
    uint64_t size = 0;
    const char *why = "";
    enum amb_status status =
        amb_segment_lease_check(shard, &session->book, ask->slot, ask->slots, &size, &why);
    bool is_coming = false;
    if (status == AMB_OK && !amb_reclaim_lease(shard, size, &is_coming)) {
        if (lease_may_wait(shard, ask, size, is_coming)) {
            return;
        }
        status = AMB_ENOMEM;
        why = "all clients together have what may be leased (memory.host.size, descriptors)";
    }
    struct amb_segment_lease *lease = NULL;
    if (status == AMB_OK) {
        status = amb_segment_lease_open(shard, &session->book, ask->slot, ask->slots, size, &lease);
        why = "the segment could not be made";
    }
    if (status != AMB_OK) {
        lease_failed(shard, ask, status, why);
        return;
    }
    amb_segment_set_group(lease->segment, amb_trust_group_or_main(ask->group));
    ask->segment = lease->segment->id;
    lease_begin_pass(shard, ask, lease);
}

const struct amb_order_kind amb_order_lease_open = {
    .run = lease_open,
    .size = AMB_ORDER_SIZE(struct amb_order_lease),
    .answers_itself = true,
};

static void lease_mapped(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_segment_lease *lease =
        session == NULL ? NULL : amb_segment_lease_find(&session->book, ask->segment);
    enum amb_status status = lease == NULL ? AMB_ENOTFOUND : amb_segment_lease_mapped(lease);
    if (status != AMB_OK) {
        lease_failed(shard, ask, status,
                     status == AMB_EFORBIDDEN ? "the segment cannot be sealed"
                                              : "no such segment waits to be mapped");
        return;
    }
    if (lease->state == AMB_LEASE_SEALED) {
        amb_order_answer(order);
        return;
    }
    lease_begin_pass(shard, ask, lease);
}

const struct amb_order_kind amb_order_lease_mapped = {
    .run = lease_mapped,
    .size = AMB_ORDER_SIZE(struct amb_order_lease),
    .answers_itself = true,
};

static void lease_close(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_segment_lease *lease =
        session == NULL ? NULL : amb_segment_lease_find(&session->book, ask->segment);
    if (lease != NULL) {
        amb_segment_lease_close(lease);
    }
}

const struct amb_order_kind amb_order_lease_close = {
    .run = lease_close,
    .size = AMB_ORDER_SIZE(struct amb_order_lease),
};
