/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/rights/rights_map.h"

#include "broker/config/config_trust.h"
#include "wire/codec/topic.h"

#include <string.h>

static bool is_allowed(const struct amb_rights *rights, const char *pattern)
{
    const struct amb_right_list *list = &rights->subscribe.allow;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct amb_right *right = &list->items[i];
        if (amb_pattern_allows(right->pattern, right->len, right->names_only, pattern,
                               strlen(pattern))) {
            return true;
        }
    }
    return false;
}

uint64_t amb_rights_maps(const struct amb_rights *rights, const struct amb_config *config)
{
    uint64_t lacks = 0;
    if (rights == NULL) {
        return UINT64_MAX;
    }
    if (!is_allowed(rights, ">")) { /* The default group has all topics that no rule names. */
        lacks = 1;
    }
    for (size_t i = 0; i < config->topics.count; i++) {
        const struct amb_topic_rule *rule = &config->topics.items[i];
        if (rule->match[0] != '$' && !is_allowed(rights, rule->match)) {
            lacks |= UINT64_C(1) << rule->group;
        }
    }
    for (uint32_t i = 0; i < rights->subscribe.deny.count; i++) {
        const struct amb_right *deny = &rights->subscribe.deny.items[i];
        lacks |= amb_config_trust_met(config, deny->pattern, deny->len);
    }
    return ~lacks;
}
