/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/blocklist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The place that refers to him, or the end of the list. */
static struct amb_blocklist_user **place_of(struct amb_blocklist *blocked, const char *name)
{
    struct amb_blocklist_user **at = &blocked->first;
    while (*at != NULL && strcmp((*at)->name, name) != 0) {
        at = &(*at)->next;
    }
    return at;
}

enum amb_status amb_blocklist_add(struct amb_blocklist *blocked, const char *name,
                                  const char *tenant, int64_t now_ns)
{
    struct amb_blocklist_user **at = place_of(blocked, name);
    if (*at != NULL) {
        return AMB_ESTATE;
    }
    if (blocked->count == AMB_BLOCKLIST_MAX) {
        return AMB_ELIMIT;
    }
    struct amb_blocklist_user *user = calloc(1, sizeof(*user));
    if (user == NULL) {
        return AMB_ENOMEM;
    }
    user->since_ns = now_ns;
    (void)snprintf(user->name, sizeof(user->name), "%s", name);
    (void)snprintf(user->tenant, sizeof(user->tenant), "%s", tenant);
    *at = user;
    blocked->count++;
    return AMB_OK;
}

bool amb_blocklist_remove(struct amb_blocklist *blocked, const char *name)
{
    struct amb_blocklist_user **at = place_of(blocked, name), *user = *at;
    if (user == NULL) {
        return false;
    }
    *at = user->next;
    free(user);
    blocked->count--;
    return true;
}

const struct amb_blocklist_user *amb_blocklist_find(const struct amb_blocklist *blocked,
                                                    const char *name)
{
    const struct amb_blocklist_user *user = blocked->first;
    while (user != NULL && strcmp(user->name, name) != 0) {
        user = user->next;
    }
    return user;
}

void amb_blocklist_fini(struct amb_blocklist *blocked)
{
    while (blocked->first != NULL) {
        struct amb_blocklist_user *user = blocked->first;
        blocked->first = user->next;
        free(user);
    }
    blocked->count = 0;
}
