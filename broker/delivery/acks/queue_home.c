/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_home.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/deadletter.h"
#include "broker/delivery/acks/queue_kept.h"
#include "broker/delivery/acks/queue_late.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/delivery/acks/queue_take.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void take_die(struct amb_queue *queue, struct amb_take *take, const char *reason)
{
    uint32_t first = take->first, count;
    (void)amb_take_run(take, &first, &count);
    uint64_t oldest = take->entry->first_seq + take->entry->above + first;
    while (amb_take_run(take, &first, &count)) {
        for (uint32_t i = first; i < first + count; i++) {
            amb_deadletter(queue->shard, take->topic, take->entry, i, take->attempt + 1, reason);
        }
        first += count;
    }
    if (queue->dead == 0) { /* Said once a queue; counted always. */
        amb_warn("topic %s: message %" PRIu64 " is given up (%s); so may be others: see %s%s",
                 amb_topic_shown(take->topic->name), oldest, reason, AMB_DEADLETTER_PREFIX,
                 amb_topic_shown(take->topic->name));
    }
    queue->dead += take->left;
    amb_stat_add(&queue->shard->stats->msgs_dead, take->left);
    amb_queue_take_drop(take);
}

static int64_t queue_backoff(const struct amb_queue *queue, uint32_t attempt)
{
    const struct amb_queue_options *options = &queue->options;
    if (options->backoff_count == 0) {
        return 0;
    }
    uint32_t last = options->backoff_count - 1;
    return options->backoff_ns[attempt < last ? attempt : last];
}

/* A delivery was in vain. */
static void take_failed(struct amb_queue *queue, struct amb_take *take)
{
    uint32_t most = queue->options.max_deliver;
    if (most != 0 && take->attempt + 1 >= most) {
        char reason[48];
        (void)snprintf(reason, sizeof(reason), "delivered %u times", take->attempt + 1);
        take_die(queue, take, reason);
        return;
    }
    int64_t delay_ns = take->end == AMB_TAKE_LEFT ? 0
                       : take->delay_ns > 0       ? take->delay_ns * !AMB_FAULT(NAK_DELAY_IGNORED)
                                                  : queue_backoff(queue, take->attempt);
    amb_queue_take_again(take, take->attempt + !AMB_FAULT(ATTEMPT_NOT_RAISED));
    (void)amb_queue_keep_rest(queue, take, delay_ns); /* False: it is split before it goes out. */
}

void amb_queue_take_home(struct amb_mail *mail, void *owner)
{
    struct amb_take *take = AMB_CONTAINER_OF(mail, struct amb_take, mail);
    struct amb_queue *queue = take->queue;
    (void)owner;
    if (take->of != NULL) {
        take->entry = take->of->entry;
        take->topic = take->of->topic;
        take->key = take->of->key;
        amb_queue_take_tally(take, take->of->tally);
        amb_queue_late_settle(take, take->of->late);
        take->of = NULL;
        amb_entry_ref(take->entry);
        take->topic->naming++;
        queue->takes++;
    }
    take->lost = take->end == AMB_TAKE_UNSENT ? take->lost : 0;
    take->loss = take->lost == 0 ? AMB_LOSS_NONE : take->loss;
    amb_queue_late_settle(take, take->late);
    amb_queue_take_forget_late(take);
    if (take->end == AMB_TAKE_SETTLED || take->left == 0 || queue->is_closed) {
        amb_queue_take_drop(take);
        if (queue->is_closed) {
            amb_queue_free_if_done(queue);
        }
        return;
    }
    switch (take->end) {
    case AMB_TAKE_UNSENT:
        amb_queue_keep(queue, take, 0);
        break;
    case AMB_TAKE_TERM: {
        char *reason = take->reason;
        take->reason = NULL;
        take_die(queue, take, reason == NULL ? "terminated" : reason);
        free(reason);
        break;
    }
    case AMB_TAKE_LEFT:
    case AMB_TAKE_EXPIRED:
    case AMB_TAKE_NAK:
    case AMB_TAKE_SETTLED:
        take_failed(queue, take);
        break;
    }
}
