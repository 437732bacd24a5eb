/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/pace.h"

#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/base/clock.h"
#include "wire/codec/frame.h"

#include <stdlib.h>

enum amb_status amb_pace_create(struct amb_shard *shard, struct amb_list_node *cursors,
                                const struct amb_pace_options *options, struct amb_pace **out)
{
    *out = NULL;
    if (options->msgs == 0 && options->bytes == 0 && !options->is_original) {
        return AMB_OK;
    }
    struct amb_pace *pace = calloc(1, sizeof(*pace));
    if (pace == NULL) {
        return AMB_ENOMEM;
    }
    pace->options = *options;
    pace->shard = shard;
    pace->cursors = cursors;
    amb_list_init(&pace->node);
    *out = pace;
    return AMB_OK;
}

void amb_pace_destroy(struct amb_pace **pace)
{
    if (*pace != NULL) {
        amb_list_remove(&(*pace)->node);
        free(*pace);
        *pace = NULL;
    }
}

/* The cost of so much of a second's share, in ns. */
static int64_t cost_ns(uint64_t amount, uint64_t rate)
{
    if (rate == 0 || rate > AMB_PACE_RATE_MAX) {
        return 0;
    }
    double ns = (double)amount * (double)AMB_NS_PER_SEC / (double)rate;
    return ns < (double)INT64_MAX / 4 ? (int64_t)ns : INT64_MAX / 4;
}

static void pace_wait(struct amb_pace *pace, int64_t due_ns)
{
    struct amb_shard *shard = pace->shard;
    if (amb_list_is_empty(&pace->node)) {
        amb_list_push_back(&shard->pace.waiting, &pace->node);
        pace->due_ns = due_ns;
    }
    pace->due_ns = due_ns < pace->due_ns ? due_ns : pace->due_ns; /* of several topics the first */
    shard->pace.due_ns = pace->due_ns < shard->pace.due_ns ? pace->due_ns : shard->pace.due_ns;
}

/* When messages of that entry are due, by shard->now_ns. */
static int64_t original_due_ns(struct amb_pace *pace, const struct amb_entry *entry)
{
    const struct amb_shard *shard = pace->shard;
    if (!pace->has_begun) {
        pace->has_begun = true;
        pace->shift_ns = shard->now_ns - entry->time_ns;
    }
    return entry->time_ns + pace->shift_ns;
}

/* How many of the messages from `first` to `end` fit: one at least. */
static uint32_t pace_fit(const struct amb_pace *pace, const struct amb_entry *entry, uint32_t first,
                         uint32_t end, int64_t now_ns)
{
    const struct amb_record *records = amb_entry_records(entry);
    int64_t until_ns = now_ns + AMB_PACE_BURST_NS;
    uint64_t bytes = 0;
    uint32_t i = first;
    do {
        bytes += records[i].len;
        i++;
    } while (i < end && pace->msgs_ns + cost_ns(i - first, pace->options.msgs) <= until_ns &&
             pace->bytes_ns + cost_ns(bytes, pace->options.bytes) <= until_ns);
    return i;
}

bool amb_pace_ask(struct amb_pace *pace, const struct amb_cursor *cursor,
                  const struct amb_entry *entry, uint32_t *end)
{
    int64_t now_ns = pace->shard->now_ns;
    int64_t due_ns = pace->options.is_original ? original_due_ns(pace, entry) : now_ns;
    /* An unused share is not saved up. */
    pace->msgs_ns = pace->msgs_ns < now_ns ? now_ns : pace->msgs_ns;
    pace->bytes_ns = pace->bytes_ns < now_ns ? now_ns : pace->bytes_ns;
    int64_t paid_ns = pace->msgs_ns > pace->bytes_ns ? pace->msgs_ns : pace->bytes_ns;
    if (paid_ns > now_ns + AMB_PACE_BURST_NS) {
        /* Half of the burst later: then there is a group of them. */
        paid_ns -= AMB_PACE_BURST_NS / 2;
        due_ns = paid_ns > due_ns ? paid_ns : due_ns;
    }
    if (due_ns > now_ns) {
        pace_wait(pace, due_ns);
        return false;
    }
    *end = pace_fit(pace, entry, cursor->within, *end, now_ns);
    return true;
}

void amb_pace_spend(struct amb_pace *pace, const struct amb_entry *entry, uint32_t first,
                    uint32_t end)
{
    const struct amb_record *records = amb_entry_records(entry);
    uint64_t bytes = 0;
    for (uint32_t i = first; i < end; i++) {
        bytes += records[i].len;
    }
    pace->msgs_ns = amb_deadline_ns(pace->msgs_ns, cost_ns(end - first, pace->options.msgs));
    pace->bytes_ns = amb_deadline_ns(pace->bytes_ns, cost_ns(bytes, pace->options.bytes));
}

int64_t amb_pace_tick(struct amb_shard *shard)
{
    if (shard->now_ns < shard->pace.due_ns) {
        return shard->pace.due_ns;
    }
    shard->pace.due_ns = INT64_MAX;
    AMB_LIST_FOR_EACH_SAFE (node, &shard->pace.waiting) {
        struct amb_pace *pace = AMB_CONTAINER_OF(node, struct amb_pace, node);
        if (pace->due_ns > shard->now_ns) {
            shard->pace.due_ns =
                pace->due_ns < shard->pace.due_ns ? pace->due_ns : shard->pace.due_ns;
            continue;
        }
        amb_list_remove(node);
        AMB_LIST_FOR_EACH (cursor_node, pace->cursors) {
            amb_topic_mark(AMB_CONTAINER_OF(cursor_node, struct amb_cursor, of_sub)->topic);
        }
    }
    return shard->pace.due_ns;
}
