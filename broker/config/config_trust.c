/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_trust.h"

#include "wire/base/text.h"
#include "wire/codec/topic.h"

#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

static bool is_default(const char *name)
{
    return strcmp(name, AMB_TRUST_GROUP_DEFAULT) == 0;
}

enum amb_status amb_config_trust_check(const struct amb_config_target *element)
{
    const struct amb_topic_rule *rule = element->base;
    const char *name = rule->trust_group;
    char shown[AMB_CONFIG_SHOWN_MAX];
    size_t len = strlen(name);
    if (len == 0 || len > AMB_TRUST_GROUP_NAME_MAX || strspn(name, NAME_LETTERS) != len) {
        return amb_config_fail(element->build, element->place, "topics.trust_group",
                               "not a name (got \"%s\", allowed 1 to %u letters, digits and -_)",
                               amb_text_show(name, shown, sizeof(shown)), AMB_TRUST_GROUP_NAME_MAX);
    }
    if (!is_default(name) && rule->match[0] == '$') {
        return amb_config_fail(element->build, element->place, "topics.trust_group",
                               "the broker's own topics have no trust group: nobody maps them");
    }
    return AMB_OK;
}

static bool find_or_add(struct amb_config *config, const char *name, uint32_t *out)
{
    uint32_t i = 0;
    while (i < config->trust_groups.count && strcmp(config->trust_groups.names[i], name) != 0) {
        i++;
    }
    if (i == AMB_TRUST_GROUPS_MAX) {
        return false;
    }
    if (i == config->trust_groups.count) {
        config->trust_groups.names[config->trust_groups.count++] = name;
    }
    *out = i;
    return true;
}

enum amb_status amb_config_trust_finish(struct amb_config_build *build)
{
    struct amb_config *config = build->config;
    config->trust_groups.names[0] = AMB_TRUST_GROUP_DEFAULT;
    config->trust_groups.count = 1;
    for (size_t i = 0; i < config->topics.count; i++) {
        struct amb_topic_rule *rule = &config->topics.items[i];
        char shown[AMB_CONFIG_SHOWN_MAX];
        if (!find_or_add(config, rule->trust_group, &rule->group)) {
            return amb_config_fail(
                build, amb_config_place_of(build->store, "topics"), "topics.trust_group",
                "too many trust groups (got %s as one more, allowed %u with the "
                "default one)",
                amb_text_show(rule->trust_group, shown, sizeof(shown)), AMB_TRUST_GROUPS_MAX);
        }
    }
    return AMB_OK;
}

uint64_t amb_config_trust_met(const struct amb_config *config, const char *pattern, size_t len)
{
    uint64_t met = 0;
    if (pattern[0] == '$') {
        return 0;
    }
    for (size_t i = 0; i < config->topics.count; i++) {
        const struct amb_topic_rule *rule = &config->topics.items[i];
        size_t rule_len = strlen(rule->match);
        if (amb_pattern_meets(rule->match, rule_len, pattern, len)) {
            met |= UINT64_C(1) << rule->group;
        }
        if (amb_pattern_contains(rule->match, rule_len, pattern, len)) {
            return met;
        }
    }
    return met | 1;
}

bool amb_config_trust_is_same(const struct amb_config *a, const struct amb_config *b)
{
    if (a->trust_groups.count == 1 && b->trust_groups.count == 1) {
        return true; /* All topics are of the default group. */
    }
    bool is_same = a->topics.count == b->topics.count;
    for (size_t i = 0; is_same && i < a->topics.count; i++) {
        is_same = strcmp(a->topics.items[i].match, b->topics.items[i].match) == 0 &&
                  strcmp(a->topics.items[i].trust_group, b->topics.items[i].trust_group) == 0;
    }
    return is_same;
}
