/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/rule.h"

#include "broker/config/config.h"
#include "broker/shard/shard.h"
#include "broker/topic/append.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "wire/base/log.h"

static void use_keys(struct amb_topic *topic)
{
    uint32_t keys = topic->rule->retain.keys;
    uint64_t bytes = topic->rule->max_bytes;
    if (keys == 0) {
        amb_keys_destroy(&topic->keys);
    } else if (topic->keys != NULL) {
        amb_keys_limit(topic->keys, keys, bytes);
    } else if (amb_keys_create(topic->shard, keys, bytes, amb_topic_is_home(topic), &topic->keys) !=
               AMB_OK) {
        amb_warn("topic %s: no memory for its keys (retain.keys)", amb_topic_shown(topic->name));
    }
}

void amb_topic_use_config(struct amb_topic *topic, const struct amb_config *config)
{
    const struct amb_config *former = topic->config;
    if (former == config) {
        return;
    }
    topic->config = amb_config_ref(config);
    topic->rule = amb_config_topic(config, topic->name);
    amb_config_unref(&former);
    topic->history.retains = amb_topic_is_home(topic) && amb_topic_rule_retains(topic->rule);
    if (!topic->has_ttl && topic->rule->ttl_ns != AMB_CONFIG_TIME_FOREVER) {
        topic->has_ttl = true;
        amb_cursor_unpark_all(topic);
    }
    use_keys(topic);
    if (topic->has_ttl || topic->rule->retain.age_ns != 0) {
        amb_topic_watch(topic);
    }
}

/* One entry may always stay, however large. */
static bool is_over(const struct amb_topic *topic)
{
    const struct amb_log *log = &topic->log;
    const struct amb_topic_rule *rule = topic->rule;
    return log->hi - log->lo > 1 && (log->bytes > rule->max_bytes ||
                                     (rule->max_messages != 0 && log->msgs > rule->max_messages));
}

bool amb_topic_settle(struct amb_topic *topic, uint32_t *budget)
{
    uint64_t before = topic->log.lo, most = before + *budget;
    /* Where readers spill, the walk sees to the excess (spill.c). Borrowers have what home lends.
     */
    if (amb_topic_is_home(topic) && topic->spill.readers == 0) {
        uint64_t wanted = amb_topic_read_from(topic);
        amb_trim_to(topic, wanted < most ? wanted : most);
        uint64_t upto = topic->rule->full == AMB_FULL_DROP_OLDEST ? topic->log.hi
                                                                  : amb_topic_holding_from(topic);
        while (topic->log.lo < most && is_over(topic) && amb_trim_may_drop(topic, upto)) {
            amb_trim_oldest(topic, wanted);
        }
    }
    uint64_t used = topic->log.lo - before + 1;
    bool is_done = topic->log.lo < most;
    *budget -= used < *budget ? (uint32_t)used : *budget;
    if (is_done) {
        amb_topic_mark_all(topic);
    }
    return is_done;
}
