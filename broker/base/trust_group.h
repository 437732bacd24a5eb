/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust groups: topics whose payloads share segments. A client that maps a segment sees all of it.
 * So each segment belongs to one group, and a client maps those that its rights cover. A group is
 * of one tenant. Its topics are those of one trust group of the configuration, or all others, which
 * are the tenant's default group.
 *
 *   id 0   private: nobody maps it. Replies, requests, the broker's own messages
 *   id 1   the default group of AMB_TENANT_OPERATORS
 *   ...    others, in the order of their first use
 *
 * Threads: the control thread makes them; any may read one that it was given. Memory: embedded.
 */
#pragma once

#include "broker/base/tenant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TRUST_GROUPS_MAX 64u /* with the default one: of a configuration, and of a broker */
#define AMB_TRUST_GROUP_NAME_MAX 64u

struct amb_trust_group {
    uint32_t id; /* of its pool on each worker */
    uint32_t tenant;
    uint32_t index; /* in the configuration; 0: the tenant's default group */
};

extern const struct amb_trust_group amb_trust_group_private, amb_trust_group_main;

/* Those that the broker has, beside these two. */
struct amb_trust_groups {
    uint32_t count;
    struct amb_trust_group items[AMB_TRUST_GROUPS_MAX - 1];
};

/* The group of that tenant with that index < AMB_TRUST_GROUPS_MAX, made at its first use. It stays
 * as long as `groups`. percent: of the part that other tenants leave, so many may be of this one;
 * the operators' may have all. Past that it is the private one: its messages leave by copy. */
const struct amb_trust_group *amb_trust_groups_find(struct amb_trust_groups *groups,
                                                    uint32_t tenant, uint32_t index,
                                                    unsigned percent);
/* The same, and none is made but the tenant's default group: the index is a client's word. One that
 * has no topic yet is the private one. */
const struct amb_trust_group *amb_trust_groups_find_told(struct amb_trust_groups *groups,
                                                         uint32_t tenant, uint32_t index,
                                                         unsigned percent);

/* NULL: the main one. */
static inline const struct amb_trust_group *
amb_trust_group_or_main(const struct amb_trust_group *group)
{
    return group != NULL ? group : &amb_trust_group_main;
}

static inline bool amb_trust_group_is_private(const struct amb_trust_group *group)
{
    return group->id == 0;
}

/* May a client of that tenant map it? maps: a bit for each index that its rights cover. */
static inline bool amb_trust_group_may_map(const struct amb_trust_group *group, uint32_t tenant,
                                           uint64_t maps)
{
    return !amb_trust_group_is_private(group) && group->tenant == tenant &&
           (maps >> group->index & 1) != 0;
}
