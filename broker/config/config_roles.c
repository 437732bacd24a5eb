/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_roles.h"

#include "wire/codec/topic.h"
#include "wire/config/config_build.h"

#include <string.h>

#define ROLE(member) offsetof(struct amb_role, member)
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_@"

/* Patterns ------------------------------------------------------------------------------------ */

/* The fault of '%' in a pattern; NULL: there is none. *len: the greatest that names can make it. */
static const char *variables_fault(const char *pattern, size_t *len)
{
    *len = strlen(pattern);
    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 1, '%')) {
        bool is_token = (at == pattern || at[-1] == '.') && (at[1] == 'u' || at[1] == 't') &&
                        (at[2] == '\0' || at[2] == '.');
        if (!is_token) {
            return "'%' is not in a token that is %u or %t as a whole";
        }
        *len += AMB_ROLE_NAME_MAX - 2;
    }
    return *len > AMB_TOPIC_MAX ? "too long for a topic, with the names for %u and %t" : NULL;
}

static const char *pattern_fault(const char *pattern)
{
    size_t len;
    const char *fault = NULL;
    if (amb_pattern_check(pattern, strlen(pattern), &fault) != AMB_OK) {
        return fault;
    }
    if (amb_pattern_is_inbox(pattern, strlen(pattern))) {
        return "inboxes go by request and reply, not by patterns";
    }
    return variables_fault(pattern, &len);
}

static const char *publish_fault(const char *pattern)
{
    if (pattern[0] == '=') {
        return "'=' is for what is subscribed to";
    }
    return pattern[0] == '$' ? "names that begin with '$' are the broker's"
                             : pattern_fault(pattern);
}

static const char *allow_fault(const char *pattern)
{
    return pattern_fault(pattern[0] == '=' ? pattern + 1 : pattern);
}

static const char *deny_fault(const char *pattern)
{
    return pattern[0] == '=' ? "'=' is for allow" : pattern_fault(pattern);
}

static const char *shared_fault(const char *name)
{
    size_t len = strlen(name);
    bool is_name = len > 0 && len <= AMB_ROLE_NAME_MAX && strpbrk(name, " \t\r\n") == NULL;
    return is_name ? NULL : "not a name: 1 to 64 bytes without white space";
}

/* Keys ---------------------------------------------------------------------------------------- */

static const struct amb_config_word admin_words[] = {{"none", AMB_ADMIN_NONE, false},
                                                     {"read", AMB_ADMIN_READ, false},
                                                     {"operate", AMB_ADMIN_OPERATE, false},
                                                     {"admin", AMB_ADMIN_ADMIN, false},
                                                     {NULL, 0, false}};

static const struct amb_config_key role_keys[] = {
    {.path = "name",
     .type = AMB_CONFIG_TEXT,
     .offset = ROLE(name),
     .apply = AMB_CONFIG_LIVE,
     .example_value = "\"camera\"",
     .min = 1,
     .max = AMB_ROLE_NAME_MAX,
     .help = "As the file of users says it: letters, digits and -_@ alone."},
    {.path = "publish.allow",
     .type = AMB_CONFIG_STRINGS,
     .item_fault = publish_fault,
     .offset = ROLE(publish.allow),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_ROLE_PATTERNS_MAX,
     .help = "Patterns of topics to publish to. The short form is publish = ( \"a.>\" ). A "
             "token %u is the name of the user, %t that of its tenant."},
    {.path = "publish.deny",
     .type = AMB_CONFIG_STRINGS,
     .item_fault = publish_fault,
     .offset = ROLE(publish.deny),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_ROLE_PATTERNS_MAX,
     .help = "... and of topics that this user does not publish to, whatever another role allows."},
    {.path = "subscribe.allow",
     .type = AMB_CONFIG_STRINGS,
     .item_fault = allow_fault,
     .offset = ROLE(subscribe.allow),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_ROLE_PATTERNS_MAX,
     .help = "Patterns to subscribe to: a subscription's has to lie within one of them. \"=a.*\" "
             "is for names alone, and no pattern with a wildcard lies within it. $SYS and $DLQ "
             "need patterns of their own."},
    {.path = "subscribe.deny",
     .type = AMB_CONFIG_STRINGS,
     .item_fault = deny_fault,
     .offset = ROLE(subscribe.deny),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_ROLE_PATTERNS_MAX,
     .help = "... and of topics that this user does not read. A subscription that lies within one "
             "is refused, and one that meets it is narrowed by those topics."},
    {.path = "shared",
     .type = AMB_CONFIG_STRINGS,
     .item_fault = shared_fault,
     .offset = ROLE(shared),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_ROLE_PATTERNS_MAX,
     .help = "Names of groups, durables and publishers that belong to the tenant: users whose "
             "roles list such a name have it in common."},
    {.path = "request",
     .type = AMB_CONFIG_BOOL,
     .offset = ROLE(request),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "false",
     .help = "It asks requests of topics that it may publish to, and gets replies."},
    {.path = "reply",
     .type = AMB_CONFIG_BOOL,
     .offset = ROLE(reply),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "false",
     .help = "It replies to requests that it reads."},
    {.path = "admin",
     .type = AMB_CONFIG_WORD,
     .offset = ROLE(admin),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "none",
     .words = admin_words,
     .help = "What it may ask of the broker: read, its views; operate, also commands; admin, also "
             "those of all tenants."},
    {.path = "ucx",
     .type = AMB_CONFIG_BOOL,
     .offset = ROLE(ucx),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "false",
     .help = "It may have a ucx link, which is not a security boundary: give it only to users that "
             "you trust with the broker itself."},
};

const struct amb_config_key *amb_config_role_keys(size_t *count)
{
    *count = sizeof(role_keys) / sizeof(role_keys[0]);
    return role_keys;
}

bool amb_config_admin_level(const char *name, enum amb_admin *out)
{
    const struct amb_config_word *word = amb_config_word_find(admin_words, name);
    if (word != NULL) {
        *out = (enum amb_admin)word->value;
    }
    return word != NULL;
}

/* One role ------------------------------------------------------------------------------------ */

size_t amb_config_role_patterns(const struct amb_role *role)
{
    return role->publish.allow.count + role->publish.deny.count + role->subscribe.allow.count +
           role->subscribe.deny.count;
}

static enum amb_status role_check(const struct amb_config_target *element)
{
    const struct amb_role *role = element->base;
    if (strspn(role->name, NAME_LETTERS) != strlen(role->name)) {
        return amb_config_fail(element->build, element->place, element->path,
                               "not a name (allowed letters, digits and -_@)");
    }
    size_t patterns = amb_config_role_patterns(role);
    if (patterns > AMB_ROLE_PATTERNS_MAX) {
        return amb_config_fail(element->build, element->place, element->path,
                               "too many patterns (got %zu, allowed %u in all lists)", patterns,
                               AMB_ROLE_PATTERNS_MAX);
    }
    return AMB_OK;
}

const struct amb_config_elements amb_config_roles_kind = {
    .keys = amb_config_role_keys,
    .size = sizeof(struct amb_role),
    .name = "name",
    .name_offset = ROLE(name),
    .name_help = "a name as \"camera\"",
    .example = "{ name = \"camera\"; publish = ( \"cam.%u.>\" ); }",
    .list_key = "allow",
    .check = role_check,
};

/* By name ------------------------------------------------------------------------------------- */

const struct amb_role *amb_config_role(const struct amb_roles *roles, const char *name)
{
    return amb_config_elements_find(&amb_config_roles_kind, roles->items, roles->count, name);
}

void amb_config_pattern_where(const struct amb_config_strings *patterns, size_t index, char *out,
                              size_t size)
{
    amb_config_place_format(&patterns->places[index], out, size);
}
