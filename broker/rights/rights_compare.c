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

/* Does a deny take something of what a line of that list allows, messages or their dead letters? */
static bool deny_meets(const struct amb_right *deny, const struct amb_right_list *allow)
{
    for (uint32_t i = 0; i < allow->count; i++) {
        const struct amb_right *line = &allow->items[i];
        size_t len = line->len;
        const char *dead = amb_rights_of_dead(line->pattern, &len);
        if (amb_pattern_meets(line->pattern, line->len, deny->pattern, deny->len) ||
            (dead != NULL && amb_pattern_meets(dead, len, deny->pattern, deny->len))) {
            return true;
        }
    }
    return false;
}

/* Was all that the line covers denied? */
static bool denies_cover(const struct amb_right_list *deny, const struct amb_right *line,
                         uint32_t *from)
{
    struct amb_right letters = *line;
    size_t len = line->len;
    letters.pattern = amb_rights_of_dead(line->pattern, &len);
    letters.len = (uint32_t)len;
    return list_covers(deny, line, from) ||
           (letters.pattern != NULL && list_covers(deny, &letters, from));
}

static bool side_loses(const struct amb_rights_side *former, const struct amb_rights_side *later)
{
    uint32_t in_allow = 0, in_deny = 0;
    for (uint32_t i = 0; i < former->allow.count; i++) {
        const struct amb_right *allow = &former->allow.items[i];
        if (!list_covers(&later->allow, allow, &in_allow) &&
            !denies_cover(&former->deny, allow, &in_deny)) {
            return true;
        }
    }
    in_deny = 0;
    for (uint32_t i = 0; i < later->deny.count; i++) {
        const struct amb_right *deny = &later->deny.items[i];
        if (!denies_cover(&former->deny, deny, &in_deny) && deny_meets(deny, &former->allow)) {
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
