/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/rights/rights.h"

#include "broker/base/heap_account.h"
#include "broker/config/config_roles.h"
#include "broker/rights/rights_table.h"
#include "wire/base/assert.h"
#include "wire/codec/topic.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(AMB_ROLE_PATTERNS_MAX == 128, "a cut has two words of bits");

/* Compiling ----------------------------------------------------------------------------------- */

/* The places in the allocation that are still free, by kind. */
struct space {
    struct amb_right *rights;
    const char **shared;
    char *text;
};

size_t amb_rights_count(const struct amb_rights_of *of)
{
    size_t count = 0;
    for (size_t i = 0; i < of->role_count; i++) {
        count += amb_config_role_patterns(of->roles[i]);
    }
    return count;
}

static size_t shared_count(const struct amb_rights_of *of)
{
    size_t count = 0;
    for (size_t i = 0; i < of->role_count; i++) {
        count += of->roles[i]->shared.count;
    }
    return count;
}

/* Of a pattern with the names of a user and its tenant, and its NUL. */
static size_t text_size(const struct amb_rights_of *of, const char *pattern)
{
    size_t size = 1;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '%') {
            size++;
        } else {
            size += strlen(*++pattern == 'u' ? of->user : of->tenant);
        }
    }
    return size;
}

static size_t list_size(const struct amb_rights_of *of, const struct amb_config_strings *list)
{
    size_t size = 0;
    for (size_t i = 0; i < list->count; i++) {
        size += text_size(of, list->items[i]);
    }
    return size;
}

/* Of all patterns of all roles. */
static size_t texts_size(const struct amb_rights_of *of)
{
    size_t size = 0;
    for (size_t i = 0; i < of->role_count; i++) {
        const struct amb_role *role = of->roles[i];
        size += list_size(of, &role->publish.allow) + list_size(of, &role->publish.deny) +
                list_size(of, &role->subscribe.allow) + list_size(of, &role->subscribe.deny);
    }
    return size;
}

/* Copies a pattern with the names of a user and its tenant. The schema has seen to it that '%'
 * begins such a token alone, and that the whole fits a topic. */
static uint32_t text_fill(const struct amb_rights_of *of, const char *pattern, char *out)
{
    char *at = out;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '%') {
            *at++ = *pattern;
            continue;
        }
        const char *name = *++pattern == 'u' ? of->user : of->tenant;
        size_t len = strlen(name);
        memcpy(at, name, len);
        at += len;
    }
    *at = '\0';
    amb_assert((size_t)(at - out) <= AMB_TOPIC_MAX);
    return (uint32_t)(at - out);
}

/* Lists of one kind, of all roles, become one. where: of that list in a role. */
static void list_fill(const struct amb_rights_of *of, size_t where, struct space *space,
                      struct amb_right_list *out)
{
    out->items = space->rights;
    for (size_t i = 0; i < of->role_count; i++) {
        const struct amb_config_strings *list = (const void *)((const char *)of->roles[i] + where);
        for (size_t k = 0; k < list->count; k++) {
            const char *pattern = list->items[k];
            bool names_only = pattern[0] == '=';
            struct amb_right *right = space->rights++;
            *right = (struct amb_right){.pattern = space->text,
                                        .names_only = names_only,
                                        .role = of->roles[i],
                                        .list = list,
                                        .index = k};
            right->len = text_fill(of, pattern + names_only, space->text);
            space->text += right->len + 1;
            out->count++;
        }
    }
}

static void shared_fill(const struct amb_rights_of *of, struct space *space,
                        struct amb_rights *rights)
{
    rights->shared = space->shared;
    for (size_t i = 0; i < of->role_count; i++) {
        for (size_t k = 0; k < of->roles[i]->shared.count; k++) {
            *space->shared++ = of->roles[i]->shared.items[k];
            rights->shared_count++;
        }
    }
}

enum amb_status amb_rights_make(const struct amb_rights_of *of, struct amb_rights **out)
{
    size_t count = amb_rights_count(of), names = shared_count(of), at = sizeof(struct amb_rights);
    if (count > AMB_ROLE_PATTERNS_MAX || strlen(of->user) > AMB_ROLE_NAME_MAX ||
        strlen(of->tenant) > AMB_ROLE_NAME_MAX) {
        return AMB_EINVAL;
    }
    size_t shared_at = at + count * sizeof(struct amb_right);
    size_t text_at = shared_at + names * sizeof(char *), end = text_at + texts_size(of);
    char *bytes = calloc(1, end);
    if (bytes == NULL) {
        return AMB_ENOMEM;
    }
    struct amb_rights *rights = (void *)bytes;
    struct space space = {(void *)(bytes + at), (void *)(bytes + shared_at), bytes + text_at};
    rights->refs = 1;
    list_fill(of, offsetof(struct amb_role, publish.allow), &space, &rights->publish.allow);
    list_fill(of, offsetof(struct amb_role, publish.deny), &space, &rights->publish.deny);
    list_fill(of, offsetof(struct amb_role, subscribe.allow), &space, &rights->subscribe.allow);
    list_fill(of, offsetof(struct amb_role, subscribe.deny), &space, &rights->subscribe.deny);
    shared_fill(of, &space, rights);
    amb_assert(space.text <= bytes + end); /* An '=' is not copied. */
    rights->heap = (uint32_t)end + AMB_HEAP_OVERHEAD;
    for (size_t i = 0; i < of->role_count; i++) {
        const struct amb_role *role = of->roles[i];
        rights->request = rights->request || role->request;
        rights->reply = rights->reply || role->reply;
        rights->ucx = rights->ucx || role->ucx;
        rights->admin = role->admin > rights->admin ? role->admin : rights->admin;
    }
    *out = rights;
    return AMB_OK;
}

void amb_rights_unref(struct amb_rights **rights)
{
    struct amb_rights *own = *rights;
    *rights = NULL;
    if (own != NULL && --own->refs == 0) {
        amb_rights_table_forget(own);
        if (own->config != NULL) {
            amb_config_unref(&own->config);
        }
        free(own);
    }
}

void amb_rights_keep(struct amb_rights *rights, const struct amb_config *config)
{
    if (rights->config == NULL) {
        rights->config = amb_config_ref(config);
    }
}

/* Asking -------------------------------------------------------------------------------------- */

/* The first line within which the topic or pattern lies. */
static const struct amb_right *list_find(const struct amb_right_list *list, const char *asked,
                                         size_t len)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct amb_right *right = &list->items[i];
        if (amb_pattern_allows(right->pattern, right->len, right->names_only, asked, len)) {
            return right;
        }
    }
    return NULL;
}

const char *amb_rights_of_dead(const char *pattern, size_t *len)
{
    size_t prefix = sizeof(AMB_DEADLETTER_PREFIX) - 1;
    if (*len <= prefix || memcmp(pattern, AMB_DEADLETTER_PREFIX, prefix) != 0) {
        return NULL;
    }
    *len -= prefix;
    return pattern + prefix;
}

static const struct amb_right *deny_find(const struct amb_right_list *deny, const char *asked,
                                         size_t len)
{
    const struct amb_right *line = list_find(deny, asked, len);
    const char *dead = amb_rights_of_dead(asked, &len);
    return line != NULL || dead == NULL ? line : list_find(deny, dead, len);
}

static bool deny_meets(const struct amb_right *deny, const char *pattern, size_t len)
{
    size_t dead_len = len;
    const char *dead = amb_rights_of_dead(pattern, &dead_len);
    return amb_pattern_meets(deny->pattern, deny->len, pattern, len) ||
           (dead != NULL && amb_pattern_meets(deny->pattern, deny->len, dead, dead_len));
}

/* False: refused by that line, or because there is none. */
static bool side_allows(const struct amb_rights_side *side, const char *asked, size_t len,
                        const struct amb_right **by)
{
    *by = deny_find(&side->deny, asked, len);
    if (*by != NULL) {
        return false;
    }
    *by = list_find(&side->allow, asked, len);
    return *by != NULL;
}

bool amb_rights_publish(const struct amb_rights *rights, const char *topic, size_t len,
                        const struct amb_right **by)
{
    const struct amb_right *line = NULL;
    bool is_allowed = rights == NULL || side_allows(&rights->publish, topic, len, &line);
    if (by != NULL) {
        *by = line;
    }
    return is_allowed;
}

enum amb_rights_answer amb_rights_subscribe(const struct amb_rights *rights, const char *pattern,
                                            size_t len, struct amb_rights_cut *cut,
                                            const struct amb_right **by)
{
    const struct amb_right *line = NULL;
    *cut = (struct amb_rights_cut){{0, 0}};
    bool is_allowed = rights == NULL || side_allows(&rights->subscribe, pattern, len, &line);
    for (uint32_t i = 0; is_allowed && rights != NULL && i < rights->subscribe.deny.count; i++) {
        const struct amb_right *deny = &rights->subscribe.deny.items[i];
        if (deny_meets(deny, pattern, len)) {
            line = amb_rights_cut_is_empty(cut) ? deny : line;
            cut->bits[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
    if (by != NULL) {
        *by = line;
    }
    return !is_allowed                    ? AMB_RIGHTS_NO
           : amb_rights_cut_is_empty(cut) ? AMB_RIGHTS_WHOLE
                                          : AMB_RIGHTS_NARROWED;
}

bool amb_rights_cuts_out(const struct amb_rights *rights, const struct amb_rights_cut *cut,
                         const char *topic, size_t len)
{
    for (unsigned word = 0; word < sizeof(cut->bits) / sizeof(cut->bits[0]); word++) {
        for (uint64_t left = cut->bits[word]; left != 0; left &= left - 1) {
            const struct amb_right *deny =
                &rights->subscribe.deny.items[word * 64 + (unsigned)__builtin_ctzll(left)];
            if (deny_meets(deny, topic, len)) {
                return true;
            }
        }
    }
    return false;
}

bool amb_rights_shares(const struct amb_rights *rights, const char *name)
{
    for (uint32_t i = 0; rights != NULL && i < rights->shared_count; i++) {
        if (strcmp(rights->shared[i], name) == 0) {
            return true;
        }
    }
    return false;
}
