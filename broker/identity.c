/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/identity.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum amb_status amb_identities_init(struct amb_identities *identities)
{
    memset(identities, 0, sizeof(*identities));
    amb_list_init(&identities->all);
    return amb_map_create(&identities->by_key);
}

void amb_identities_fini(struct amb_identities *identities)
{
    if (identities->by_key == NULL) {
        return;
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&identities->all)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct amb_identity, node));
    }
    amb_map_destroy(&identities->by_key);
}

/* "user name topic priority": a topic has no spaces, and what is beside it neither. */
static bool make_key(uint32_t user, const char *name, const char *topic, enum amb_priority priority,
                     char key[AMB_IDENTITY_KEY_MAX], size_t *len)
{
    size_t name_len = strlen(name);
    if (name_len == 0 || name_len > AMB_IDENTITY_NAME_MAX || strcspn(name, " \t\r\n") != name_len) {
        return false;
    }
    *len = (size_t)snprintf(key, AMB_IDENTITY_KEY_MAX, "%u %s %s %u", user, name, topic,
                            (unsigned)priority);
    return *len < AMB_IDENTITY_KEY_MAX;
}

/* One that nobody has used for the window. */
static struct amb_identity *oldest(struct amb_identities *identities, int64_t now_ns,
                                   int64_t window_ns)
{
    AMB_LIST_FOR_EACH (node, &identities->all) {
        struct amb_identity *identity = AMB_CONTAINER_OF(node, struct amb_identity, node);
        if (identity->is_taken) {
            continue;
        }
        return amb_deadline_ns(identity->used_ns, window_ns) <= now_ns ? identity : NULL;
    }
    return NULL;
}

static enum amb_status make(struct amb_identities *identities, const char *key, size_t len,
                            int64_t now_ns, int64_t window_ns, struct amb_identity **out)
{
    struct amb_identity *identity = NULL;
    if (identities->count < AMB_IDENTITIES_MAX) {
        identity = malloc(sizeof(*identity));
        if (identity == NULL) {
            return AMB_ENOMEM;
        }
        identities->count++;
    } else {
        identity = oldest(identities, now_ns, window_ns);
        if (identity == NULL) {
            return AMB_ELIMIT;
        }
        (void)amb_map_remove(identities->by_key, identity->key, identity->key_len);
        amb_list_remove(&identity->node);
    }
    memset(identity, 0, sizeof(*identity));
    memcpy(identity->key, key, len);
    identity->key_len = len;
    if (amb_map_put(identities->by_key, identity->key, len, identity) != AMB_OK) {
        identities->count--;
        free(identity);
        return AMB_ENOMEM;
    }
    amb_list_push_back(&identities->all, &identity->node);
    *out = identity;
    return AMB_OK;
}

enum amb_status amb_identity_take(struct amb_identities *identities, uint32_t user,
                                  const char *name, const char *topic, enum amb_priority priority,
                                  int64_t now_ns, int64_t window_ns, struct amb_identity **out)
{
    char key[AMB_IDENTITY_KEY_MAX];
    size_t len;
    if (!make_key(user, name, topic, priority, key, &len)) {
        return AMB_EINVAL;
    }
    struct amb_identity *identity = amb_map_get(identities->by_key, key, len);
    if (identity != NULL && identity->is_taken) {
        return AMB_EBUSY;
    }
    if (identity == NULL) {
        enum amb_status status = make(identities, key, len, now_ns, window_ns, &identity);
        if (status != AMB_OK) {
            return status;
        }
    }
    identity->is_taken = true;
    amb_list_remove(&identity->node);
    amb_list_push_back(&identities->all, &identity->node);
    *out = identity;
    return AMB_OK;
}

void amb_identity_give(struct amb_identities *identities, struct amb_identity *identity,
                       int64_t now_ns)
{
    if (identity == NULL) {
        return;
    }
    amb_assert(identity->is_taken);
    identity->is_taken = false;
    identity->used_ns = now_ns;
    amb_list_remove(&identity->node);
    amb_list_push_back(&identities->all, &identity->node);
}
