/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/naming.h"

#include "broker/config.h"
#include "broker/control.h"
#include "broker/shard.h"

/* The worker of the last publisher of that name has read that it is over: what it has counted is
 * known, and the next one opens. */
static void identity_known(void *control, struct amb_order *fence)
{
    struct amb_control *own = control;
    struct amb_order *order = fence->context;
    struct amb_identity *identity = order->u.publisher.identity;
    amb_order_free(fence);
    if (identity->seq < order->u.publisher.last_seq) {
        identity->seq = order->u.publisher.last_seq; /* Its program knows more than we do. */
    }
    order->u.publisher.last_seq = identity->seq;
    identity->shard = order->session.shard;
    identity->was_taken = true;
    amb_order_post(own->shards[order->session.shard], order);
}

struct amb_order *amb_naming_fence(void)
{
    return amb_order_create(amb_order_nothing, identity_known, NULL);
}

void amb_naming_post(struct amb_control *control, struct amb_order *order, struct amb_order *fence)
{
    const struct amb_identity *identity = order->u.publisher.identity;
    if (identity == NULL) {
        amb_order_post(control->shards[order->session.shard], order);
        return;
    }
    fence->context = order;
    if (identity->was_taken) {
        amb_order_post(control->shards[identity->shard], fence);
    } else {
        identity_known(control, fence);
    }
}

bool amb_naming_take(struct amb_client *client, uint64_t id, const Amb__Control__PubOpen *open,
                     struct amb_identity **out)
{
    *out = NULL;
    if (open->name[0] == '\0') {
        return true;
    }
    struct amb_control *control = client->control;
    enum amb_status status =
        amb_identity_take(&control->identities, client->uid, open->name, open->topic,
                          control->now_ns, control->config->limits.dedup_window_ns, out);
    if (status == AMB_OK) {
        return true;
    }
    amb_client_send_error(client, id, status, "publisher's name: %s",
                          status == AMB_EINVAL  ? "1 to 64 bytes without white space"
                          : status == AMB_EBUSY ? "another one has it"
                                                : amb_status_text(status));
    return false;
}
