/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_build.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWED_MAX 320u
#define WHERE_LEAST 48u /* bytes of a place in an error */

void *amb_config_alloc(struct amb_config_store *store, size_t size)
{
    struct amb_config_block *block = calloc(1, sizeof(*block) + size);
    if (block == NULL) {
        return NULL;
    }
    block->next = store->blocks;
    store->blocks = block;
    return block->bytes;
}

char *amb_config_copy(struct amb_config_store *store, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = amb_config_alloc(store, size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

void amb_config_store_fini(struct amb_config_store *store)
{
    while (store->blocks != NULL) {
        struct amb_config_block *block = store->blocks;
        store->blocks = block->next;
        free(block);
    }
}

/* The end of a name that is too long: it says more, and the line comes behind it. No control
 * characters. */
static void show_name(const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    const char *cut = len < size ? "" : "...";
    const char *from = len < size ? name : name + len - (size - 1 - strlen(cut));
    (void)snprintf(out, size, "%s%s", cut, from);
    for (char *c = out; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    }
}

void amb_config_place_format(const struct amb_config_place *place, char *out, size_t size)
{
    static const char most[] = "environment :4294967295";
    char name[AMB_CONFIG_ERROR_MAX / 4 - sizeof(most)];
    size_t room = size > sizeof(most) + 8 ? size - sizeof(most) : 8;
    show_name(place->name == NULL ? "" : place->name, name,
              room < sizeof(name) ? room : sizeof(name));
    switch (place->origin) {
    case AMB_CONFIG_ORIGIN_DEFAULT:
        (void)snprintf(out, size, "default");
        return;
    case AMB_CONFIG_ORIGIN_DEV:
        (void)snprintf(out, size, "--dev");
        return;
    case AMB_CONFIG_ORIGIN_ENVIRONMENT:
        (void)snprintf(out, size, "environment %s", name);
        return;
    case AMB_CONFIG_ORIGIN_OPTION:
        (void)snprintf(out, size, "%s", name);
        return;
    case AMB_CONFIG_ORIGIN_SET:
        (void)snprintf(out, size, "set");
        return;
    case AMB_CONFIG_ORIGIN_FILE:
        if (place->line == 0) {
            (void)snprintf(out, size, "%s", name);
        } else {
            (void)snprintf(out, size, "%s:%u", name, place->line);
        }
        return;
    }
}

enum amb_status amb_config_fail(const struct amb_config_build *build,
                                const struct amb_config_place *place, const char *path,
                                const char *format, ...)
{
    char where[AMB_CONFIG_ERROR_MAX / 4], reason[AMB_CONFIG_ERROR_MAX / 2];
    size_t room = build->error_size / 4; /* A short error keeps its reason. */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    amb_config_place_format(place, where,
                            room > WHERE_LEAST && room < sizeof(where) ? room : sizeof(where));
    if (amb_config_faults_count(build) == 0) {
        (void)snprintf(build->error, build->error_size, "%s: %s%s%s", where,
                       path == NULL ? "" : path, path == NULL ? "" : ": ", reason);
    }
    if (build->faults != NULL) {
        amb_config_fault_tell(build->faults, where, path == NULL ? "" : path, reason);
    }
    return AMB_EINVAL;
}

/* The row's index; asserts that it exists. */
static size_t index_of(const struct amb_config_schema *schema, const char *path)
{
    const struct amb_config_key *key = amb_config_key_find(schema->keys, schema->count, path);
    amb_assert(key != NULL);
    return (size_t)(key - schema->keys);
}

const struct amb_config_place *amb_config_place_of(const struct amb_config_store *store,
                                                   const char *path)
{
    return &store->places[index_of(store->schema, path)];
}

void amb_config_place_set(struct amb_config_store *store, const char *path,
                          const struct amb_config_place *place)
{
    store->places[index_of(store->schema, path)] = *place;
}

enum amb_status amb_config_not_yet(const struct amb_config_build *build, const char *path,
                                   const struct amb_config_place *place)
{
    return amb_config_fail(build, place, path, "not yet supported in this release");
}

enum amb_status amb_config_unknown(const struct amb_config_build *build,
                                   const struct amb_config_key *keys, size_t count,
                                   const char *prefix, const char *path,
                                   const struct amb_config_place *place)
{
    char shown[AMB_CONFIG_SHOWN_MAX];
    char group[AMB_CONFIG_PATH_MAX];
    const char *nearest = amb_config_nearest_group(keys, count, path, group)
                              ? group
                              : amb_config_nearest(keys, count, path);
    const char *dot = prefix[0] == '\0' ? "" : ".";
    (void)amb_text_show(path, shown, sizeof(shown));
    char full[2 * AMB_CONFIG_SHOWN_MAX];
    (void)snprintf(full, sizeof(full), "%.60s%s%s", prefix, dot, shown);
    if (nearest == NULL) {
        return amb_config_fail(build, place, full, "unknown key (all keys: %s)",
                               build->store->schema->listing);
    }
    return amb_config_fail(build, place, full, "unknown key (did you mean %.60s%s%s?)", prefix, dot,
                           nearest);
}

/* The value for an error text. */
static const char *show(const struct amb_config_key *key, const struct amb_config_value *value,
                        char *out, size_t size)
{
    char text[AMB_CONFIG_SHOWN_MAX];
    if (key->secret) {
        (void)snprintf(out, size, "a value that is not shown");
        return out;
    }
    switch (value->kind) {
    case AMB_CONFIG_VALUE_UNTYPED:
    case AMB_CONFIG_VALUE_STRING:
        (void)snprintf(out, size, "\"%s\"", amb_text_show(value->text, text, sizeof(text)));
        break;
    case AMB_CONFIG_VALUE_INTEGER:
        (void)snprintf(out, size, "%lld", value->integer);
        break;
    case AMB_CONFIG_VALUE_FLOAT:
        (void)snprintf(out, size, "a fraction");
        break;
    case AMB_CONFIG_VALUE_BOOL:
        (void)snprintf(out, size, "%s", value->boolean ? "true" : "false");
        break;
    case AMB_CONFIG_VALUE_GROUP:
        (void)snprintf(out, size, "a group");
        break;
    case AMB_CONFIG_VALUE_LIST:
        (void)snprintf(out, size, "a list");
        break;
    }
    return out;
}

enum amb_status amb_config_refuse(const struct amb_config_target *target, const char *reason,
                                  const struct amb_config_value *value)
{
    char got[AMB_CONFIG_SHOWN_MAX + 4], allowed[ALLOWED_MAX];
    amb_config_allowed(target->key, allowed, sizeof(allowed));
    return amb_config_fail(target->build, target->place, target->path, "%s (got %s, allowed %s)",
                           reason, show(target->key, value, got, sizeof(got)), allowed);
}
