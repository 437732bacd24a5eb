/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/print/config_changes.h"

#include "broker/auth/users.h"
#include "broker/config/config_schema.h"
#include "broker/config/config_trust.h"
#include "wire/base/memstream.h"
#include "wire/config/config_elements.h"
#include "wire/config/config_format.h"
#include "wire/config/config_spots.h"

#include <stdlib.h>
#include <string.h>

#define WHERE_MAX (AMB_CONFIG_ERROR_MAX / 4)
#define KEY_MAX 384u /* "topics[PATTERN].retain.messages" */

/* Both configurations, and the one that is told. */
struct comparison {
    const struct amb_config *before, *after;
    amb_config_change_fn fn;
    void *arg;
};

/* Heap text of a value, so that all types compare alike; NULL without memory. */
static char *value_text(const struct amb_config_key *key, const void *base)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return NULL;
    }
    struct amb_config_key shown = *key;
    shown.secret = false;
    amb_config_value_print(&shown, base, stream);
    return amb_memstream_end(stream, &text) ? text : NULL;
}

/* Fields of one value each, and the same. Else their texts are compared. */
static bool has_same_field(const struct amb_config_key *key, const void *before, const void *after)
{
    const char *a = (const char *)before + key->offset, *b = (const char *)after + key->offset;
    const char *text, *other;
    switch (key->type) {
    case AMB_CONFIG_BOOL:
        return memcmp(a, b, sizeof(bool)) == 0;
    case AMB_CONFIG_COUNT:
        return memcmp(a, b, sizeof(uint32_t)) == 0;
    case AMB_CONFIG_SIZE:
    case AMB_CONFIG_TIME:
        return memcmp(a, b, sizeof(uint64_t)) == 0;
    case AMB_CONFIG_WORD:
        return memcmp(a, b, sizeof(int)) == 0;
    case AMB_CONFIG_TEXT:
        memcpy(&text, a, sizeof(text));
        memcpy(&other, b, sizeof(other));
        return strcmp(text, other) == 0;
    case AMB_CONFIG_STRINGS:
    case AMB_CONFIG_URLS:
    case AMB_CONFIG_PAIRS:
    case AMB_CONFIG_ELEMENTS:
        break;
    }
    return false;
}

/* True: they differ, and it was told. */
static bool tell_if_other(const struct comparison *both, const struct amb_config_key *key,
                          const char *name, const void *before, const void *after,
                          const struct amb_config_place *place, enum amb_config_apply apply)
{
    char where[WHERE_MAX];
    if (has_same_field(key, before, after)) {
        return false;
    }
    char *a = value_text(key, before), *b = value_text(key, after);
    bool differs = a == NULL || b == NULL || strcmp(a, b) != 0;
    if (differs) {
        amb_config_place_format(place, where, sizeof(where));
        const struct amb_config_change change = {name, key->secret ? NULL : a,
                                                 key->secret ? NULL : b, where, apply};
        both->fn(both->arg, &change);
    }
    free(a);
    free(b);
    return differs;
}

static void tell(const struct comparison *both, const char *name, const char *before,
                 const char *after, const struct amb_config_place *place,
                 enum amb_config_apply apply)
{
    char where[WHERE_MAX];
    amb_config_place_format(place, where, sizeof(where));
    const struct amb_config_change change = {name, before, after, where, apply};
    both->fn(both->arg, &change);
}

/* ---- lists of groups ---- */

struct list {
    const char *items;
    size_t count;
    const char **by_name; /* heap: the elements in that order; NULL: there is no memory */
};

static const char *element_name(const struct amb_config_elements *kind, const char *element)
{
    const char *name;
    memcpy(&name, element + kind->name_offset, sizeof(name));
    return name;
}

static int compare_names(const void *a, const void *b, void *kind)
{
    const char *const *one = a, *const *other = b;
    return strcmp(element_name(kind, *one), element_name(kind, *other));
}

static struct list list_of(const struct amb_config_key *key, const struct amb_config *config)
{
    const char *field = (const char *)config + key->offset;
    struct amb_config_elements kind = *key->elements;
    struct list list;
    memcpy(&list.items, field, sizeof(list.items));
    memcpy(&list.count, field + sizeof(list.items), sizeof(list.count));
    list.by_name = malloc((list.count + 1) * sizeof(*list.by_name));
    if (list.by_name != NULL) {
        for (size_t i = 0; i < list.count; i++) {
            list.by_name[i] = list.items + i * kind.size;
        }
        qsort_r(list.by_name, list.count, sizeof(*list.by_name), compare_names, &kind);
    }
    return list;
}

static const char *element_of(const struct amb_config_elements *kind, const struct list *list,
                              const char *name)
{
    size_t from = 0, to = list->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(name, element_name(kind, list->by_name[middle]));
        if (order == 0) {
            return list->by_name[middle];
        }
        from = order > 0 ? middle + 1 : from;
        to = order < 0 ? middle : to;
    }
    return NULL;
}

static void compare_elements(const struct comparison *both, const struct amb_config_key *key,
                             const char *before, const char *after)
{
    const struct amb_config_elements *kind = key->elements;
    const struct amb_config_store *store = both->after->store;
    const char *name = element_name(kind, after);
    size_t count;
    const struct amb_config_key *keys = kind->keys(&count);
    for (size_t k = 0; k < count; k++) {
        char path[KEY_MAX];
        if (!amb_config_has_field(&keys[k])) {
            continue;
        }
        if (has_same_field(&keys[k], before, after)) {
            continue; /* Most are. */
        }
        (void)snprintf(path, sizeof(path), "%s[%s].%s", key->path, name, keys[k].path);
        const struct amb_config_place *place =
            amb_config_spot_find(store, key->path, name, keys[k].path);
        (void)tell_if_other(both, &keys[k], path, before, after,
                            place != NULL ? place : amb_config_place_of(store, key->path),
                            keys[k].apply);
    }
}

/* An element that the other list has not. */
static void tell_element(const struct comparison *both, const struct amb_config_key *key,
                         const char *element, bool is_new)
{
    const struct amb_config_store *store = both->after->store;
    const char *name = element_name(key->elements, element);
    char path[KEY_MAX];
    const struct amb_config_place *place =
        is_new ? amb_config_spot_find(store, key->path, name, "") : NULL;
    (void)snprintf(path, sizeof(path), "%s[%s]", key->path, name);
    tell(both, path, is_new ? "none" : "there", is_new ? "there" : "none",
         place != NULL ? place : amb_config_place_of(store, key->path), key->apply);
}

/* Where both have the same elements: do they stand in the same order? */
static bool has_same_order(const struct amb_config_elements *kind, const struct list *before,
                           const struct list *after)
{
    for (size_t i = 0; i < before->count && i < after->count; i++) {
        if (strcmp(element_name(kind, before->items + i * kind->size),
                   element_name(kind, after->items + i * kind->size)) != 0) {
            return false;
        }
    }
    return true;
}

/* Each element, found by its name. */
static void compare_each(const struct comparison *both, const struct amb_config_key *key,
                         const struct list *before, const struct list *after)
{
    const struct amb_config_elements *kind = key->elements;
    bool has_other = false;
    for (size_t i = 0; i < after->count; i++) {
        const char *element = after->items + i * kind->size;
        const char *former = element_of(kind, before, element_name(kind, element));
        if (former == NULL) {
            has_other = true;
            tell_element(both, key, element, true);
        } else {
            compare_elements(both, key, former, element);
        }
    }
    for (size_t i = 0; i < before->count; i++) {
        const char *element = before->items + i * kind->size;
        if (element_of(kind, after, element_name(kind, element)) == NULL) {
            has_other = true;
            tell_element(both, key, element, false);
        }
    }
    if (!has_other && !has_same_order(kind, before, after)) {
        tell(both, key->path, NULL, NULL, amb_config_place_of(both->after->store, key->path),
             key->apply);
    }
}

/* Without memory the whole list counts as another one. */
static void compare_lists(const struct comparison *both, const struct amb_config_key *key)
{
    struct list before = list_of(key, both->before), after = list_of(key, both->after);
    if (before.by_name != NULL && after.by_name != NULL) {
        compare_each(both, key, &before, &after);
    } else {
        tell(both, key->path, NULL, NULL, amb_config_place_of(both->after->store, key->path),
             key->apply);
    }
    free(before.by_name);
    free(after.by_name);
}

/* ---- what no key says ---- */

static bool is_of_files(const char *path)
{
    return strcmp(path, "tls.certificate") == 0 || strcmp(path, "tls.key") == 0 ||
           strcmp(path, "tls.ca") == 0 || strcmp(path, "tls.crl") == 0;
}

/* Files whose names have stayed. */
static void compare_files(const struct comparison *both, bool has_tls, bool has_users)
{
    const struct amb_config *before = both->before, *after = both->after;
    const struct amb_config_store *store = after->store;
    if (!has_tls && !amb_tls_context_is_same(before->tls.context, after->tls.context)) {
        tell(both, "files of tls", NULL, NULL, amb_config_place_of(store, "tls.certificate"),
             AMB_CONFIG_LIVE);
    }
    if (strcmp(before->http.token, after->http.token) != 0 &&
        strcmp(before->http.token_file, after->http.token_file) == 0) {
        tell(both, "http.token_file", NULL, NULL, amb_config_place_of(store, "http.token_file"),
             AMB_CONFIG_LIVE);
    }
    if (!has_users && !amb_auth_users_is_same(before->auth.users, after->auth.users)) {
        tell(both, "auth.users", NULL, NULL, amb_config_place_of(store, "auth.users"),
             AMB_CONFIG_LIVE);
    }
}

void amb_config_changes(const struct amb_config *before, const struct amb_config *after,
                        amb_config_change_fn fn, void *arg)
{
    const struct comparison both = {before, after, fn, arg};
    bool has_tls = false, has_users = false;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        const struct amb_config_key *key = &keys[i];
        if (!amb_config_has_field(key)) {
            continue;
        }
        if (key->type == AMB_CONFIG_ELEMENTS) {
            compare_lists(&both, key);
            continue;
        }
        bool differs = tell_if_other(&both, key, key->path, before, after,
                                     amb_config_place_of(after->store, key->path), key->apply);
        has_tls = has_tls || (differs && is_of_files(key->path));
        has_users = has_users || (differs && strcmp(key->path, "auth.users") == 0);
    }
    /* Memory of topics is shared by groups, and clients have mapped it. */
    if (!amb_config_trust_is_same(before, after)) {
        tell(&both, "topics.trust_group", NULL, NULL, amb_config_place_of(after->store, "topics"),
             AMB_CONFIG_RESTART);
    }
    compare_files(&both, has_tls, has_users);
}
