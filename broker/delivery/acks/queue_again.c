/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_again.h"

#include "broker/delivery/acks/queue.h"
#include "wire/base/assert.h"

/* Two entries may have the same. */
static uint64_t again_id(const struct amb_take_key *key)
{
    return (uint64_t)key->topic << 40 ^ key->seq;
}

struct amb_take *amb_queue_again_first(const struct amb_queue *queue,
                                       const struct amb_take_key *key)
{
    struct amb_idmap_node *node = amb_idmap_find(&queue->again, again_id(key));
    return node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_take, again);
}

void amb_queue_again_add(struct amb_take *take)
{
    struct amb_queue *queue = take->queue;
    if (take->is_in_ring) {
        return;
    }
    struct amb_take *first = amb_queue_again_first(queue, &take->key);
    amb_list_init(&take->kin);
    if (first != NULL) {
        amb_list_push_back(&first->kin, &take->kin);
    } else if (amb_idmap_put(&queue->again, &take->again, again_id(&take->key)) != AMB_OK) {
        return; /* Its messages come again, whatever is acknowledged late. */
    }
    take->is_first = first == NULL;
    take->is_in_ring = true;
}

void amb_queue_again_remove(struct amb_take *take)
{
    if (!take->is_in_ring) {
        return;
    }
    if (take->is_first) {
        struct amb_idmap *again = &take->queue->again;
        uint64_t id = take->again.id;
        amb_idmap_remove(again, &take->again);
        if (!amb_list_is_empty(&take->kin)) {
            struct amb_take *next = AMB_CONTAINER_OF(take->kin.next, struct amb_take, kin);
            enum amb_status status = amb_idmap_put(again, &next->again, id);
            amb_assert(status == AMB_OK); /* There is a table. */
            next->is_first = true;
        }
    }
    amb_list_remove(&take->kin);
    take->is_in_ring = take->is_first = false;
}
