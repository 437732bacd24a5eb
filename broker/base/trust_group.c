/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/trust_group.h"

#include "broker/base/party.h"
#include "wire/base/assert.h"

/* That there is room for: the operators' default group needs none. */
#define GROUPS (AMB_TRUST_GROUPS_MAX - 1)

const struct amb_trust_group amb_trust_group_private = {.id = 0};
const struct amb_trust_group amb_trust_group_main = {.id = 1};

static bool is_it(const struct amb_trust_group *group, uint32_t tenant, uint32_t index)
{
    return group->tenant == tenant && group->index == index;
}

/* The group that there is already. NULL: none. *own: so many are the tenant's. */
static const struct amb_trust_group *find(const struct amb_trust_groups *groups, uint32_t tenant,
                                          uint32_t index, uint32_t *own)
{
    amb_assert(index < AMB_TRUST_GROUPS_MAX);
    *own = 0;
    if (is_it(&amb_trust_group_main, tenant, index)) {
        return &amb_trust_group_main;
    }
    for (uint32_t i = 0; i < groups->count; i++) {
        if (is_it(&groups->items[i], tenant, index)) {
            return &groups->items[i];
        }
        *own += groups->items[i].tenant == tenant;
    }
    return NULL;
}

const struct amb_trust_group *amb_trust_groups_find(struct amb_trust_groups *groups,
                                                    uint32_t tenant, uint32_t index,
                                                    unsigned percent)
{
    uint32_t own;
    const struct amb_trust_group *known = find(groups, tenant, index, &own);
    if (known != NULL) {
        return known;
    }
    percent = tenant == AMB_TENANT_OPERATORS ? 100 : percent;
    if (own >= amb_share_of(GROUPS, groups->count, own, percent)) {
        return &amb_trust_group_private;
    }
    struct amb_trust_group *group = &groups->items[groups->count++];
    *group = (struct amb_trust_group){
        .id = amb_trust_group_main.id + groups->count, .tenant = tenant, .index = index};
    return group;
}

const struct amb_trust_group *amb_trust_groups_find_told(struct amb_trust_groups *groups,
                                                         uint32_t tenant, uint32_t index,
                                                         unsigned percent)
{
    uint32_t own;
    if (index == 0) {
        return amb_trust_groups_find(groups, tenant, index, percent);
    }
    const struct amb_trust_group *known = find(groups, tenant, index, &own);
    return known != NULL ? known : &amb_trust_group_private;
}
