/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/rights/rights_compare.h"

#include "wire/codec/topic.h"

/* Does one line of the list cover all that `inner` does, names or patterns too? *from: the line to
 * begin with, then the one behind the answer. Most lines stay in their order, and are found at
 * once. */
static bool list_covers(const struct amb_right_list *list, const struct amb_right *inner,
                        uint32_t *from)
{
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t at = (*from + i) % list->count;
        const struct amb_right *outer = &list->items[at];
        bool names_only = outer->names_only && !inner->names_only;
        if (amb_pattern_allows(outer->pattern, outer->len, names_only, inner->pattern,
                               inner->len)) {
            *from = at + 1;
            return true;
        }
    }
    return false;
}

static bool list_meets(const struct amb_right_list *list, const struct amb_right *right)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct amb_right *other = &list->items[i];
        if (amb_pattern_meets(other->pattern, other->len, right->pattern, right->len)) {
            return true;
        }
    }
    return false;
}

static bool side_loses(const struct amb_rights_side *former, const struct amb_rights_side *later)
{
    uint32_t in_allow = 0, in_deny = 0;
    for (uint32_t i = 0; i < former->allow.count; i++) {
        const struct amb_right *allow = &former->allow.items[i];
        if (!list_covers(&later->allow, allow, &in_allow) &&
            !list_covers(&former->deny, allow, &in_deny)) {
            return true;
        }
    }
    in_deny = 0;
    for (uint32_t i = 0; i < later->deny.count; i++) {
        const struct amb_right *deny = &later->deny.items[i];
        if (!list_covers(&former->deny, deny, &in_deny) && list_meets(&former->allow, deny)) {
            return true;
        }
    }
    return false;
}

bool amb_rights_lose(const struct amb_rights *former, const struct amb_rights *later)
{
    if (former == later || later == NULL) {
        return false;
    }
    if (former == NULL || side_loses(&former->publish, &later->publish) ||
        side_loses(&former->subscribe, &later->subscribe)) {
        return true;
    }
    for (uint32_t i = 0; i < former->shared_count; i++) {
        if (!amb_rights_shares(later, former->shared[i])) {
            return true;
        }
    }
    return (former->request && !later->request) || (former->reply && !later->reply) ||
           (former->ucx && !later->ucx) || former->admin > later->admin;
}
