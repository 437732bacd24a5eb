/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_again.h"

#include "broker/delivery/acks/queue.h"
#include "wire/base/assert.h"

/* Two entries may have the same. */
static uint64_t failed_id(const struct amb_take_key *key)
{
    return (uint64_t)key->topic << 40 ^ key->seq;
}

struct amb_take *amb_queue_failed_first(const struct amb_queue *queue,
                                        const struct amb_take_key *key)
{
    struct amb_idmap_node *node = amb_idmap_find(&queue->failed, failed_id(key));
    return node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_take, failed);
}

void amb_queue_failed_add(struct amb_take *take)
{
    struct amb_queue *queue = take->queue;
    if (take->is_failed) {
        return;
    }
    struct amb_take *first = amb_queue_failed_first(queue, &take->key);
    amb_list_init(&take->kin);
    if (first != NULL) {
        amb_list_push_back(&first->kin, &take->kin);
    } else if (amb_idmap_put(&queue->failed, &take->failed, failed_id(&take->key)) != AMB_OK) {
        return; /* It comes again, whatever is acknowledged late. */
    }
    take->is_first = first == NULL;
    take->is_failed = true;
}

void amb_queue_failed_remove(struct amb_take *take)
{
    if (!take->is_failed) {
        return;
    }
    if (take->is_first) {
        struct amb_idmap *failed = &take->queue->failed;
        uint64_t id = take->failed.id;
        amb_idmap_remove(failed, &take->failed);
        if (!amb_list_is_empty(&take->kin)) {
            struct amb_take *next = AMB_CONTAINER_OF(take->kin.next, struct amb_take, kin);
            enum amb_status status = amb_idmap_put(failed, &next->failed, id);
            amb_assert(status == AMB_OK); /* There is a table. */
            next->is_first = true;
        }
    }
    amb_list_remove(&take->kin);
    take->is_failed = take->is_first = false;
}
