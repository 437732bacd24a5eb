/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_late.h"

#include "broker/delivery/acks/queue_again.h"
#include "broker/delivery/acks/queue_kept.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/delivery/acks/queue_take.h"

void amb_queue_late_settle(struct amb_take *take, const struct amb_take *late)
{
    if (late != NULL) {
        struct amb_queue *queue = take->queue;
        uint32_t settled = amb_take_clear_of(take, late);
        take->acked += settled;
        queue->settled_late += settled;
        amb_stat_add(&queue->shard->stats->msgs_settled_late, settled);
    }
}

static void settle_kept(struct amb_queue *queue, struct amb_take *take, const struct amb_take *ack)
{
    amb_queue_unkeep(queue, take);
    amb_queue_late_settle(take, ack);
    amb_queue_count_kept(queue, take);
    if (take->left == 0) {
        amb_queue_take_out(queue, take);
        amb_queue_take_drop(take);
    }
    amb_queue_mark(queue); /* There may be credit for others. */
}

/* Only the member's worker knows which of them are still open. So the whole slice counts here. */
static bool is_of_slice(const struct amb_take *take, const struct amb_take *ack)
{
    for (uint32_t i = take->first; i < take->first + take->count; i++) {
        if ((ack->bits[i / 64] >> (i % 64) & 1) != 0) {
            return true;
        }
    }
    return false;
}

/* The ACK itself is kept for that take, so no memory can lack. Others of its entry may have it,
 * too: a message that is settled is never open again. */
static void settle_away(struct amb_take *take, struct amb_take *ack)
{
    if (take->late == NULL) {
        take->late = ack;
        ack->late_of++;
    }
    for (unsigned w = 0; w < AMB_TAKE_WORDS; w++) {
        take->late->bits[w] |= ack->bits[w];
    }
}

static void queue_settle(struct amb_queue *queue, struct amb_take *ack)
{
    const struct amb_take_key *key = &ack->key;
    struct amb_take *take = amb_queue_again_first(queue, key);
    if (take == NULL) {
        return;
    }
    /* Each may go, but only in its own turn. */
    const struct amb_take *last = AMB_CONTAINER_OF(take->kin.prev, struct amb_take, kin);
    bool is_last = false;
    while (!is_last) {
        struct amb_take *next = AMB_CONTAINER_OF(take->kin.next, struct amb_take, kin);
        is_last = take == last;
        if (take->key.topic == key->topic && take->key.seq == key->seq && is_of_slice(take, ack)) {
            if (take->is_kept) {
                settle_kept(queue, take, ack);
            } else {
                settle_away(take, ack);
            }
        }
        take = next;
    }
}

void amb_queue_late_ack(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_take *ack = AMB_CONTAINER_OF(mail, struct amb_take, mail);
    struct amb_idmap_node *node = amb_idmap_find(&shard->queues.known, ack->key.queue);
    if (node != NULL) {
        queue_settle(AMB_CONTAINER_OF(node, struct amb_queue, known), ack);
    }
    if (ack->late_of == 0) {
        amb_take_put(shard, ack);
    }
}
