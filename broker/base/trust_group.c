/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/trust_group.h"

#include "wire/base/assert.h"

const struct amb_trust_group amb_trust_group_private = {.id = 0};
const struct amb_trust_group amb_trust_group_main = {.id = 1};

static bool is_it(const struct amb_trust_group *group, uint32_t tenant, uint32_t index)
{
    return group->tenant == tenant && group->index == index;
}

const struct amb_trust_group *amb_trust_groups_find(struct amb_trust_groups *groups,
                                                    uint32_t tenant, uint32_t index)
{
    amb_assert(index < AMB_TRUST_GROUPS_MAX);
    if (is_it(&amb_trust_group_main, tenant, index)) {
        return &amb_trust_group_main;
    }
    for (uint32_t i = 0; i < groups->count; i++) {
        if (is_it(&groups->items[i], tenant, index)) {
            return &groups->items[i];
        }
    }
    if (groups->count == sizeof(groups->items) / sizeof(groups->items[0])) {
        return &amb_trust_group_private;
    }
    struct amb_trust_group *group = &groups->items[groups->count++];
    *group = (struct amb_trust_group){
        .id = amb_trust_group_main.id + groups->count, .tenant = tenant, .index = index};
    return group;
}
