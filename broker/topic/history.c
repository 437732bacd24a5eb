/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/history.h"

#include "broker/config/config.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/relocate.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "broker/topic/twin.h"
#include "wire/base/clock.h"

#define HISTORY_TICK_MAX_NS AMB_NS_PER_SEC
#define HISTORY_STEP_BYTES (UINT64_C(1) << 20) /* copied in one walk, and one entry more */

/* Out of GPU memory, whose slots are a publisher's too: its copy in host memory takes its place.
 * False: that is still coming. */
static bool history_to_host(struct amb_topic *topic, uint64_t position, struct amb_entry *entry)
{
    struct amb_entry *twin = amb_twin_get(topic->shard, entry);
    if (twin == NULL && entry->twin_state == AMB_TWIN_COMING) {
        return false;
    }
    if (twin == NULL) {
        amb_topic_forget(topic, position + 1);
        return true;
    }
    amb_relocate_to_twin(topic, position, twin);
    return true;
}

void amb_history_settle(struct amb_topic *topic)
{
    uint64_t bytes = 0, upto = amb_topic_needed_from(topic);
    if (topic->history.settled < topic->log.lo) {
        topic->history.settled = topic->log.lo;
    }
    while (topic->history.settled < upto) {
        struct amb_entry *entry = amb_log_at(&topic->log, topic->history.settled);
        if (entry->is_leased && entry->segment->gpu != NULL) {
            if (!history_to_host(topic, topic->history.settled, entry)) {
                return; /* The topic is marked when it has come. */
            }
        } else if (entry->is_leased) {
            if (bytes >= HISTORY_STEP_BYTES) {
                amb_topic_mark(topic);
                return;
            }
            bytes += entry->data_len;
            if (!amb_relocate_leased(topic, topic->history.settled, false)) {
                amb_topic_forget(topic, topic->history.settled + 1);
                return;
            }
        }
        topic->history.settled++;
    }
}

/* When the oldest entry goes, or begins to go, by age alone. By shard->now_ns. */
static int64_t history_due_ns(const struct amb_topic *topic)
{
    const struct amb_entry *oldest = amb_log_at(&topic->log, topic->log.lo);
    int64_t due_ns = oldest->expires_ns != 0 ? oldest->expires_ns : INT64_MAX;
    if (topic->history.retains && topic->rule->retain.age_ns != 0) {
        int64_t at_ns = amb_deadline_ns(oldest->arrived_ns, topic->rule->retain.age_ns + 1);
        due_ns = at_ns < due_ns ? at_ns : due_ns;
    }
    return due_ns;
}

int64_t amb_history_tick(struct amb_shard *shard)
{
    if (shard->now_ns < shard->history.due_ns) {
        return shard->history.due_ns;
    }
    int64_t next_ns = INT64_MAX;
    AMB_LIST_FOR_EACH (node, &shard->history.timed) {
        struct amb_topic *topic = AMB_CONTAINER_OF(node, struct amb_topic, history.timed);
        if (topic->log.lo == topic->log.hi) {
            continue;
        }
        int64_t due_ns = history_due_ns(topic);
        if (due_ns <= shard->now_ns) {
            amb_topic_mark(topic);
        }
        /* The entries behind the oldest may be due sooner. */
        int64_t last_ns = shard->now_ns + HISTORY_TICK_MAX_NS;
        due_ns = due_ns < last_ns ? due_ns : last_ns;
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    if (next_ns < shard->now_ns + AMB_TOPIC_TICK_NS) {
        next_ns = shard->now_ns + AMB_TOPIC_TICK_NS;
    }
    shard->history.due_ns = next_ns;
    return next_ns;
}
