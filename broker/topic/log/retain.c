/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/log/retain.h"

#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/log/log.h"

bool amb_retain_is_over(const struct amb_log *log, const struct amb_topic_rule *rule,
                        const struct amb_shard *shard)
{
    const struct amb_entry *oldest = amb_log_at(log, log->lo);
    if (rule->retain.messages == 0 && rule->retain.bytes == 0 && rule->retain.age_ns == 0) {
        return true; /* It keeps keys alone. */
    }
    if (rule->retain.messages != 0 && log->msgs - oldest->count >= rule->retain.messages) {
        return true;
    }
    if (rule->retain.bytes != 0 && log->bytes > rule->retain.bytes) {
        return true;
    }
    if (rule->ttl_ns != AMB_CONFIG_TIME_FOREVER &&
        shard->now_ns - oldest->arrived_ns >= rule->ttl_ns) {
        return true;
    }
    return rule->retain.age_ns != 0 && shard->now_ns - oldest->arrived_ns > rule->retain.age_ns;
}

uint64_t amb_retain_floor(const struct amb_log *log, const struct amb_topic_rule *rule)
{
    if (!amb_topic_rule_retains(rule) || log->lo == log->hi) {
        return log->next_seq;
    }
    uint64_t floor = amb_log_at(log, log->lo)->first_seq;
    uint64_t messages = rule->retain.messages;
    /* A batch is kept whole. Readers begin within it, at the first message that `retain` keeps. */
    if (messages != 0 && messages < log->next_seq && log->next_seq - messages > floor) {
        floor = log->next_seq - messages;
    }
    return floor;
}
