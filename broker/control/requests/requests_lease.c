/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/requests_lease.h"

#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/requests/requests_private.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_lease.h"

#include <unistd.h>

void amb_request_gpu_range(struct amb_gpu_pool *pool, uint64_t offset, Amb__Control__GpuRange *out)
{
    out->device = (char *)(uintptr_t)amb_cuda_info(pool->cuda)->uuid;
    out->handle.data = (uint8_t *)(uintptr_t)pool->handle;
    out->handle.len = sizeof(pool->handle);
    out->offset = offset;
    out->pool = pool->size;
    amb_gpu_pool_give_away(pool);
}

static void lease_opened(void *control, struct amb_order *order)
{
    const struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    (void)control;
    struct amb_request *request = order->context;
    struct amb_client *client = request->client;
    int fd = ask->fd;
    if (client->state != AMB_CLIENT_LIVE) {
        if (order->status == AMB_OK && fd >= 0) {
            (void)close(fd);
        }
    } else if (order->status != AMB_OK) {
        amb_client_send_error(client, request->id, order->status, "lease: %s", ask->why);
    } else {
        Amb__Control__LeaseOpened opened = AMB__CONTROL__LEASE_OPENED__INIT;
        opened.segment = ask->segment;
        opened.size = ask->size;
        Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
        message.id = request->id;
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPENED;
        message.lease_opened = &opened;
        if (ask->pool != NULL) {
            Amb__Control__GpuRange range;
            amb__control__gpu_range__init(&range);
            amb_request_gpu_range(ask->pool, ask->gpu_offset, &range);
            opened.gpu = &range;
            amb_client_send(client, &message, NULL, 0);
        } else {
            amb_client_send(client, &message, &fd, 1);
        }
    }
    amb_order_free(order);
    amb_request_free(request);
}

static void lease_mapped(void *control, struct amb_order *order)
{
    const struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    (void)control;
    struct amb_request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        if (order->status == AMB_OK) {
            amb_client_send_ok(request->client, request->id);
        } else {
            amb_client_send_error(request->client, request->id, order->status, "lease: %s",
                                  ask->why);
        }
    }
    amb_order_free(order);
    amb_request_free(request);
}

static void lease_closed(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_request *request = order->context;
    amb_order_free(order);
    amb_request_free(request);
}

/* The order about a lease, ready to be filled in and posted; NULL: the client has been told. */
static struct amb_order_lease *lease_order(struct amb_client *client, uint64_t id,
                                           const struct amb_order_kind *kind,
                                           amb_order_done_fn done)
{
    struct amb_order_lease *ask = amb_request_order(client, id, 0, true, kind, done);
    if (ask == NULL) {
        amb_request_no_memory(client, id);
    }
    return ask;
}

static void request_lease(struct amb_client *client, uint64_t id, const struct amb_order_kind *kind,
                          amb_order_done_fn done, uint64_t segment)
{
    struct amb_order_lease *ask = lease_order(client, id, kind, done);
    if (ask != NULL) {
        ask->segment = segment;
        amb_order_post(client->control->shards[client->session.shard], &ask->order);
    }
}

/* False: there is none for this client, and it has been told. */
static bool lease_find_pool(struct amb_client *client, uint64_t id, const char *device,
                            struct amb_gpu_pool **out)
{
    const struct amb_gpus *gpus = client->control->shards[0]->memory.gpus;
    client->has_gpu = true;
    *out = gpus != NULL ? amb_gpus_find(gpus, device) : NULL;
    if (*out == NULL) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "lease: %s",
                              gpus != NULL ? gpus->why_not : "the broker has no GPU memory");
    } else if (!amb_gpu_pool_is_made(*out)) {
        /* A client asks again after such an answer, and stages meanwhile. */
        amb_client_send_error(client, id, AMB_ENOMEM,
                              "lease: the GPU has no room for the broker's memory yet");
        *out = NULL;
    } else if (!(*out)->is_exported) {
        amb_client_send_error(client, id, AMB_ENOTSUP,
                              "lease: the GPU's memory cannot be shared between processes here");
        *out = NULL;
    }
    return *out != NULL;
}

/* The lease comes within what is left. A publisher writes into it before it is billed. So
 * all that its user has leased is at most a second's worth, and so are its slots. The worker asks
 * once more where it takes the memory. */
static bool quota_allows(struct amb_client *client, uint64_t id,
                         const Amb__Control__LeaseOpen *open)
{
    struct amb_account *account = amb_client_account(client);
    bool is_gpu = open->device[0] != '\0';
    uint64_t bytes = 0, leased = 0;
    if (account == NULL || __builtin_mul_overflow(open->slot, (uint64_t)open->slots, &bytes)) {
        return true; /* The worker refuses what is too large. */
    }
    leased = amb_account_used(account, AMB_QUOTA_LEASED) +
             (is_gpu ? amb_account_used(account, AMB_QUOTA_GPU_BYTES) : 0);
    const struct {
        enum amb_quota row;
        uint64_t wanted, used;
    } asks[] = {{AMB_QUOTA_LEASED, is_gpu ? 0 : bytes, 0},
                {AMB_QUOTA_HOST_BYTES, is_gpu ? 0 : bytes, 0},
                {AMB_QUOTA_GPU_BYTES, is_gpu ? bytes : 0, 0},
                {AMB_QUOTA_IN_BYTES, bytes, leased},
                {AMB_QUOTA_IN_MSGS, open->slots, 0}};
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        char text[AMB_QUOTA_TEXT_MAX];
        enum amb_quota row = asks[i].row;
        const struct amb_account *full =
            row == AMB_QUOTA_IN_BYTES || row == AMB_QUOTA_IN_MSGS
                ? amb_account_past(account, row, asks[i].used + asks[i].wanted)
                : amb_account_refuses(account, row, asks[i].wanted);
        if (full != NULL) {
            amb_client_send_error(client, id, AMB_ELIMIT, "lease: %s",
                                  amb_quota_text(full, row, text));
            return false;
        }
    }
    return true;
}

void amb_request_lease_open(struct amb_client *client, uint64_t id,
                            const Amb__Control__LeaseOpen *open)
{
    if (!amb_client_may_map(client) ||
        client->control->config->limits.max_leased_per_session == 0) {
        amb_client_send_error(client, id, AMB_ENOTSUP, "lease: %s",
                              amb_client_may_map(client)
                                  ? "switched off (limits.max_leased_per_session = 0)"
                                  : "only over the ring, by clients on the broker's host");
        return;
    }
    if (!quota_allows(client, id, open)) {
        return;
    }
    struct amb_control *control = client->control;
    if (open->group >= control->config->trust_groups.count) {
        amb_client_send_error(client, id, AMB_EINVAL, "lease: there is no such trust group");
        return;
    }
    struct amb_gpu_pool *pool = NULL;
    if (open->device[0] != '\0' && !lease_find_pool(client, id, open->device, &pool)) {
        return;
    }
    struct amb_order_lease *ask = lease_order(client, id, &amb_order_lease_open, lease_opened);
    if (ask != NULL) {
        client->has_leased = true;
        ask->pool = pool;
        ask->slot = open->slot;
        ask->slots = open->slots;
        ask->node = open->node;
        ask->group =
            amb_trust_groups_find_told(&control->directory.trust_groups, amb_client_tenant(client),
                                       open->group, control->config->limits.user_share);
        amb_order_post(control->shards[client->session.shard], &ask->order);
    }
}

void amb_request_lease_mapped(struct amb_client *client, uint64_t id, uint64_t segment)
{
    request_lease(client, id, &amb_order_lease_mapped, lease_mapped, segment);
}

void amb_request_lease_close(struct amb_client *client, uint64_t segment)
{
    request_lease(client, 0, &amb_order_lease_close, lease_closed, segment);
}
