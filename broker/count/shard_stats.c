/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/shard_stats.h"

#include "wire/base/clock.h"

void amb_stat_turn(struct amb_shard_stats *stats, uint64_t took_ns, int64_t now_ns)
{
    if (took_ns > amb_stat_get(&stats->longest_turn_ns)) {
        amb_stat_set(&stats->longest_turn_ns, took_ns);
    }
    uint64_t second = (uint64_t)now_ns / (uint64_t)AMB_NS_PER_SEC;
    _Atomic uint64_t *pair = &stats->recent_turns[2 * (second % AMB_RECENT_CELLS)];
    if (amb_stat_get(&pair[1]) != second) {
        amb_stat_set(&pair[0], 0); /* A reader between the two has a short turn of long ago. */
        amb_stat_set(&pair[1], second);
    }
    if (took_ns > amb_stat_get(&pair[0])) {
        amb_stat_set(&pair[0], took_ns);
    }
}
