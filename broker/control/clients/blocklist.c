/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/blocklist.h"

#include "broker/base/party.h"

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

/* Those of that tenant. */
static uint32_t count_of(const struct amb_blocklist *blocked, const char *tenant)
{
    uint32_t count = 0;
    for (const struct amb_blocklist_user *user = blocked->first; user != NULL; user = user->next) {
        count += strcmp(user->tenant, tenant) == 0;
    }
    return count;
}

enum amb_status amb_blocklist_add(struct amb_blocklist *blocked, const char *name,
                                  const char *tenant, unsigned percent, int64_t now_ns)
{
    struct amb_blocklist_user **at = place_of(blocked, name);
    if (*at != NULL) {
        return AMB_ESTATE;
    }
    uint32_t own = count_of(blocked, tenant);
    if (own >= amb_share_of(AMB_BLOCKLIST_MAX, blocked->count, own, percent)) {
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
