/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/rights/rights_table.h"

#include "wire/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum amb_status amb_rights_table_init(struct amb_rights_table *table)
{
    memset(table, 0, sizeof(*table));
    return amb_map_create(&table->by_key);
}

static bool let_go(const char *key, void *value, void *arg)
{
    (void)key;
    (void)arg;
    ((struct amb_rights *)value)->table = NULL;
    return true;
}

void amb_rights_table_fini(struct amb_rights_table *table)
{
    if (table->by_key != NULL) {
        amb_map_each(table->by_key, let_go, NULL);
        amb_map_destroy(&table->by_key);
    }
}

void amb_rights_table_renew(struct amb_rights_table *table)
{
    table->generation++;
}

static bool list_names(const struct amb_config_strings *list, const char *variable)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strstr(list->items[i], variable) != NULL) {
            return true;
        }
    }
    return false;
}

/* Is that variable in a pattern of the roles? */
static bool roles_name(const struct amb_rights_of *of, const char *variable)
{
    for (size_t i = 0; i < of->role_count; i++) {
        const struct amb_role *role = of->roles[i];
        if (list_names(&role->publish.allow, variable) ||
            list_names(&role->publish.deny, variable) ||
            list_names(&role->subscribe.allow, variable) ||
            list_names(&role->subscribe.deny, variable)) {
            return true;
        }
    }
    return false;
}

static char *key_add(char *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

/* The generation, the roles, and the names that their patterns have. NULL: no memory. */
static char *key_make(const struct amb_rights_table *table, const struct amb_rights_of *of,
                      size_t *len)
{
    const char *user = roles_name(of, "%u") ? of->user : "";
    const char *tenant = roles_name(of, "%t") ? of->tenant : "";
    size_t roles = of->role_count * sizeof(of->roles[0]);
    char *key = malloc(sizeof(table->generation) + roles + strlen(user) + strlen(tenant) + 2);
    if (key == NULL) {
        return NULL;
    }
    char *at = key_add(key, &table->generation, sizeof(table->generation));
    if (roles > 0) {
        at = key_add(at, of->roles, roles);
    }
    at = key_add(at, user, strlen(user) + 1);
    at = key_add(at, tenant, strlen(tenant) + 1);
    *len = (size_t)(at - key);
    return key;
}

/* Takes the key, also on failure. */
static enum amb_status make(struct amb_rights_table *table, const struct amb_rights_of *of,
                            char *key, size_t len, struct amb_rights **out)
{
    struct amb_rights *rights;
    enum amb_status status = amb_rights_make(of, &rights);
    if (status != AMB_OK) {
        free(key);
        return status;
    }
    rights->key = key;
    rights->key_len = len;
    status = amb_map_put(table->by_key, key, len, rights);
    if (status != AMB_OK) {
        amb_rights_unref(&rights);
        return status;
    }
    rights->table = table;
    *out = rights;
    return AMB_OK;
}

enum amb_status amb_rights_take(struct amb_rights_table *table, const struct amb_rights_of *of,
                                struct amb_rights **out)
{
    size_t len;
    char *key = key_make(table, of, &len);
    if (key == NULL) {
        return AMB_ENOMEM;
    }
    struct amb_rights *rights = amb_map_get(table->by_key, key, len);
    if (rights == NULL) {
        return make(table, of, key, len, out);
    }
    free(key);
    *out = amb_rights_ref(rights);
    return AMB_OK;
}

void amb_rights_table_forget(struct amb_rights *rights)
{
    if (rights->table != NULL) {
        (void)amb_map_remove(rights->table->by_key, rights->key, rights->key_len);
    }
    free(rights->key);
}
