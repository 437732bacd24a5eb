/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a shard's turn, by the state before it: the readers that give way, and the work
 * for readers that spill.
 */
#include "broker/config/config.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/spill.h"
#include "broker/shard/entry.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/log.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "broker/topic/topic_tail.h"
#include "tests/sim/sim.h"
#include "wire/base/clock.h"

#include <inttypes.h>

#define RANKED_MAX 128u
#define TAILS_MAX 64u
#define TAIL_SLACK_NS (2 * AMB_NS_PER_US)

/* Who gives way -------------------------------------------------------------------------------- */

/* Cursors that may have to give way, and how far they have come. */
struct ranked {
    const struct amb_cursor *cursor;
    uint64_t owner; /* cursors come again at the same place, ids of owners do not */
    uint32_t topic;
    uint64_t expected_seq;
};

static uint64_t owner_of(const struct amb_cursor *cursor)
{
    return cursor->queue != NULL ? cursor->queue->id << 1 | 1 : cursor->sub->id << 1;
}

static unsigned note_ranked(const struct amb_shard *shard, struct ranked ranked[RANKED_MAX])
{
    unsigned count = 0;
    for (uint32_t t = 0; t < shard->topics.cells; t++) {
        const struct amb_topic *topic = shard->topics.at[t];
        if (topic == NULL || amb_list_is_empty(&topic->kin.ring)) {
            continue;
        }
        AMB_LIST_FOR_EACH (node, &topic->cursors) {
            const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
            if (count < RANKED_MAX) {
                ranked[count++] =
                    (struct ranked){cursor, owner_of(cursor), topic->id, cursor->loss.expected_seq};
            }
        }
    }
    return count;
}

/* A reader that has gone on in this turn had nothing higher to read. */
static void check_ranked(const struct sim *s, const struct ranked *before, unsigned before_count,
                         const struct amb_shard *shard)
{
    struct ranked after[RANKED_MAX];
    unsigned count = note_ranked(shard, after);
    for (unsigned i = 0; i < count; i++) {
        const struct amb_cursor *cursor = after[i].cursor;
        bool has_gone_on = false;
        for (unsigned k = 0; k < before_count; k++) {
            has_gone_on = has_gone_on ||
                          (before[k].owner == after[i].owner && before[k].topic == after[i].topic &&
                           before[k].expected_seq < after[i].expected_seq);
        }
        SIM_CHECK(s, !has_gone_on || !amb_priority_is_outranked(cursor),
                  "%s: a reader has gone on, and did not give way to what is higher",
                  cursor->topic->name);
    }
}

/* Readers that spill --------------------------------------------------------------------------- */

/* A log that has some, before the turn. */
struct tail {
    uint32_t topic;
    uint64_t bytes, appended, lost;
};

static unsigned note_tails(const struct amb_shard *shard, struct tail tails[TAILS_MAX])
{
    unsigned count = 0;
    for (uint32_t t = 0; t < shard->topics.cells && count < TAILS_MAX; t++) {
        const struct amb_topic *topic = shard->topics.at[t];
        if (topic != NULL) {
            tails[count++] =
                (struct tail){topic->id, amb_log_bytes_from(&topic->log, topic->log.lo),
                              topic->log.bytes_appended, topic->spill.lost};
        }
    }
    return count;
}

/* They lose something only where there is more than they may keep. */
static void check_spill_loss(struct sim *s, const struct amb_topic *topic,
                             const struct tail *before)
{
    uint64_t most = before->bytes + topic->log.bytes_appended - before->appended;
    s->stats.spill_lost += topic->spill.lost - before->lost;
    SIM_CHECK(
        s, topic->spill.lost == before->lost || most > topic->rule->spill_max || s->may_lack_memory,
        "%s: readers that spill have lost %" PRIu64 ", and %" PRIu64
        " bytes are not more than spill_max",
        topic->name, topic->spill.lost - before->lost, most);
}

/* May a reader of it hold publishers back? By what it said, not by what was made of it. */
static bool has_holding(const struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        enum amb_slow slow =
            cursor->queue != NULL ? cursor->queue->options.slow : cursor->sub->options.slow;
        if (slow == AMB_SLOW_BLOCK || slow == AMB_SLOW_DEFAULT) {
            return true;
        }
    }
    for (unsigned i = 0; i < topic->lending.count; i++) {
        if (topic->lending.lends[i].holding > 0) {
            return true;
        }
    }
    return !amb_list_is_empty(&topic->lending.replays);
}

/* When the turn has done all it can: what readers that spill alone want is bounded, is not in
 * slots, and holds nobody up. */
static void check_tail(const struct sim *s, const struct amb_topic *topic)
{
    struct amb_topic_tail tail;
    amb_topic_tail(topic, &tail);
    uint64_t bytes = amb_topic_tail_bytes(topic, &tail);
    SIM_CHECK(s, tail.upto - tail.from <= 1 || bytes <= topic->rule->spill_max,
              "%s: %" PRIu64 " bytes of a tail are more than spill_max", topic->name, bytes);
    SIM_CHECK(s,
              !amb_topic_is_home(topic) || has_holding(topic) || topic->ungranted == topic->log.hi,
              "%s: a window waits for readers that spill", topic->name);
    bool is_asking = topic->spill.tries != 0;
    for (uint64_t i = tail.from; i < tail.upto && !is_asking; i++) {
        const struct amb_entry *entry = amb_log_at(&topic->log, i);
        int64_t age_ns = topic->shard->now_ns - entry->arrived_ns;
        SIM_CHECK(s, !entry->is_leased || age_ns <= AMB_SPILL_AFTER_NS + TAIL_SLACK_NS,
                  "%s: slots wait for readers that spill since %" PRId64 " us", topic->name,
                  age_ns / 1000);
    }
}

static void check_tails(struct sim *s, const struct amb_shard *shard, const struct tail *before,
                        unsigned count)
{
    for (uint32_t t = 0; t < shard->topics.cells; t++) {
        const struct amb_topic *topic = shard->topics.at[t];
        if (topic == NULL || topic->spill.readers == 0) {
            continue;
        }
        for (unsigned i = 0; i < count; i++) {
            if (before[i].topic == topic->id) {
                check_spill_loss(s, topic, &before[i]);
            }
        }
        if (amb_list_is_empty(&topic->walks.dirty)) {
            check_tail(s, topic);
        }
    }
}

/* A turn --------------------------------------------------------------------------------------- */

static struct ranked ranked[RANKED_MAX];
static struct tail tails[TAILS_MAX];
static unsigned ranked_count, tail_count;

void sim_watch_before(struct sim *s, const struct amb_shard *shard)
{
    ranked_count = s->has_priorities ? note_ranked(shard, ranked) : 0;
    tail_count = s->spills ? note_tails(shard, tails) : 0;
    sim_near_before(shard);
}

void sim_watch_after(struct sim *s, const struct amb_shard *shard)
{
    if (ranked_count > 0) {
        check_ranked(s, ranked, ranked_count, shard);
    }
    if (s->spills) {
        check_tails(s, shard, tails, tail_count);
    }
    sim_near_after(s, shard);
}
