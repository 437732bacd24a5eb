/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_rules.h"

#include "broker/config/config_schema.h"
#include "wire/base/text.h"
#include "wire/config/config_format.h"
#include "wire/config/config_tree.h"
#include "wire/config/config_value.h"

#include <string.h>

static enum amb_status set_rule_group(const struct amb_config_target *rule,
                                      const struct config_setting_t *group, const char *name);

/* prefix: of a group within the rule, "retain."; else "". */
static enum amb_status set_rule_key(const struct amb_config_target *rule,
                                    const struct config_setting_t *item, const char *prefix)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_rule_keys(&count);
    char shown[AMB_CONFIG_SHOWN_MAX], path[AMB_CONFIG_PATH_MAX + AMB_CONFIG_SHOWN_MAX];
    struct amb_config_place place = amb_config_place_at(rule->build, rule->place, item);
    char name[AMB_CONFIG_PATH_MAX];
    (void)snprintf(name, sizeof(name), "%s%.40s", prefix, amb_config_name(item));
    if (prefix[0] == '\0' && amb_config_value_of(item).kind == AMB_CONFIG_VALUE_GROUP) {
        return set_rule_group(rule, item, name);
    }
    const struct amb_config_key *key = amb_config_key_find(keys, count, name);
    (void)snprintf(path, sizeof(path), "%s.%s", rule->path,
                   amb_text_show(name, shown, sizeof(shown)));
    if (key == NULL) {
        return amb_config_unknown(rule->build, keys, count, rule->path, name, &place);
    }
    if (key->not_yet) {
        return amb_config_not_yet(rule->build, path, &place);
    }
    struct amb_config_value value = amb_config_value_of(item);
    struct amb_config_target target = {rule->build, key, rule->base, path, &place};
    return amb_config_value_set(&target, &value);
}

static enum amb_status set_rule_group(const struct amb_config_target *rule,
                                      const struct config_setting_t *group, const char *name)
{
    size_t key_count;
    const struct amb_config_key *keys = amb_config_rule_keys(&key_count);
    char prefix[AMB_CONFIG_PATH_MAX];
    (void)snprintf(prefix, sizeof(prefix), "%.*s.", (int)sizeof(prefix) - 2, name);
    bool is_known = false;
    for (size_t i = 0; i < key_count; i++) {
        is_known = is_known || strncmp(keys[i].path, prefix, strlen(prefix)) == 0;
    }
    if (!is_known) {
        struct amb_config_place place = amb_config_place_at(rule->build, rule->place, group);
        return amb_config_unknown(rule->build, keys, key_count, rule->path, name, &place);
    }
    enum amb_status status = AMB_OK;
    size_t count = amb_config_length(group);
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        status = set_rule_key(rule, amb_config_element(group, i), prefix);
    }
    return status;
}

static enum amb_status set_rule_defaults(const struct amb_config_target *rule)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_rule_keys(&count);
    enum amb_status status = AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        if (keys[i].not_yet || keys[i].default_text == NULL) {
            continue;
        }
        struct amb_config_target target = {rule->build, &keys[i], rule->base, keys[i].path,
                                           rule->place};
        struct amb_config_value value = {.kind = AMB_CONFIG_VALUE_UNTYPED,
                                         .text = keys[i].default_text};
        status = amb_config_value_set(&target, &value);
    }
    return status;
}

/* rule->base is a zeroed rule; before: those above it, whose patterns it may not repeat. */
static enum amb_status set_rule(const struct amb_config_target *rule,
                                const struct config_setting_t *group,
                                const struct amb_topic_rules *before)
{
    const struct amb_topic_rule *out = rule->base;
    if (amb_config_value_of(group).kind != AMB_CONFIG_VALUE_GROUP) {
        return amb_config_fail(rule->build, rule->place, rule->path,
                               "wrong type (allowed a group as { match = \"a.>\"; })");
    }
    enum amb_status status = set_rule_defaults(rule);
    size_t count = amb_config_length(group);
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        status = set_rule_key(rule, amb_config_element(group, i), "");
    }
    if (status != AMB_OK) {
        return status;
    }
    if (out->match == NULL) {
        return amb_config_fail(rule->build, rule->place, rule->path,
                               "match is missing (allowed a pattern as \"camera.>\")");
    }
    for (size_t i = 0; i < before->count; i++) {
        if (strcmp(before->items[i].match, out->match) == 0) {
            return amb_config_fail(rule->build, rule->place, rule->path,
                                   "topics[%zu] has the same match (got \"%s\", allowed once)", i,
                                   out->match);
        }
    }
    return AMB_OK;
}

enum amb_status amb_config_rules_set(const struct amb_config_target *target,
                                     const struct amb_config_value *value)
{
    struct amb_topic_rules *field = (void *)((char *)target->base + target->key->offset);
    if (value->kind == AMB_CONFIG_VALUE_UNTYPED && value->text[0] == '\0') {
        *field = (struct amb_topic_rules){NULL, 0};
        return AMB_OK;
    }
    if (value->kind != AMB_CONFIG_VALUE_LIST) {
        return amb_config_refuse(target, "wrong type", value);
    }
    size_t count = amb_config_length(value->setting);
    if (count > target->key->max) {
        return amb_config_refuse(target, "too many", value);
    }
    enum amb_status status = AMB_OK;
    struct amb_topic_rule *rules =
        amb_config_alloc(target->build->store, (count + 1) * sizeof(struct amb_topic_rule));
    if (rules == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        char path[AMB_CONFIG_PATH_MAX];
        const struct config_setting_t *group = amb_config_element(value->setting, i);
        struct amb_config_place place = amb_config_place_at(target->build, target->place, group);
        struct amb_topic_rules before = {rules, i};
        (void)snprintf(path, sizeof(path), "%s[%zu]", target->path, i);
        struct amb_config_target rule = {target->build, target->key, &rules[i], path, &place};
        status = set_rule(&rule, group, &before);
    }
    if (status == AMB_OK) {
        *field = (struct amb_topic_rules){rules, count};
    }
    return status;
}

/* Bytes of "group." in front of a key's name; 0: it is in none. */
static size_t rule_group_len(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot == NULL ? 0 : (size_t)(dot - path) + 1;
}

/* Keys of one group within a rule stand together. */
static void print_rule_key(const struct amb_config_key *keys, size_t count, size_t k,
                           const struct amb_topic_rule *rule, FILE *out)
{
    const char *path = keys[k].path;
    size_t group = rule_group_len(path);
    if (group > 0 && (k == 0 || strncmp(keys[k - 1].path, path, group) != 0)) {
        (void)fprintf(out, "%.*s = { ", (int)group - 1, path);
    }
    (void)fprintf(out, "%s = ", path + group);
    amb_config_value_print(&keys[k], rule, out);
    bool is_last = k + 1 == count || strncmp(keys[k + 1].path, path, group) != 0;
    (void)fprintf(out, group > 0 && is_last ? "; }; " : "; ");
}

void amb_config_rules_print(const void *field, FILE *out)
{
    const struct amb_topic_rules *rules = field;
    size_t count;
    const struct amb_config_key *keys = amb_config_rule_keys(&count);
    (void)fprintf(out, "(");
    for (size_t i = 0; i < rules->count; i++) {
        (void)fprintf(out, "%s\n    { ", i == 0 ? "" : ",");
        for (size_t k = 0; k < count; k++) {
            if (!keys[k].not_yet) {
                print_rule_key(keys, count, k, &rules->items[i], out);
            }
        }
        (void)fprintf(out, "}");
    }
    (void)fprintf(out, "%s)", rules->count == 0 ? " " : "\n");
}
