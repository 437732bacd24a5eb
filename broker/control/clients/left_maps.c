/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/left_maps.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/rights/rights_map.h"

/* Lost with the next change. */
static void leave_as_other(struct amb_control *control, uint32_t tenant, uint64_t maps)
{
    amb_tenants_at(&control->tenants, tenant)->left_maps |= maps;
    control->left_maps.others |= maps;
}

/* The groups that the user of that number may map now. Its end is noted. */
static uint64_t maps_now(struct amb_control *control, uint32_t number)
{
    struct amb_left_maps *left = &control->left_maps;
    if (control->users == NULL) {
        return UINT64_MAX;
    }
    const struct amb_auth_user *user = amb_login_owner(control, number);
    struct amb_rights *rights;
    if (user == NULL || !amb_auth_user_may_enter(user, left->now_s) ||
        amb_login_rights(control, user, &rights) != AMB_OK) {
        return 0;
    }
    if (left->due_s == 0 || user->until_s < left->due_s) {
        left->due_s = user->until_s;
    }
    uint64_t maps = amb_rights_maps(rights, control->config);
    amb_rights_unref(&rights);
    return maps;
}

static void line_compare(struct amb_control *control, uint32_t i)
{
    uint64_t *maps = &control->left_maps.lines[i].maps;
    uint64_t lost = *maps & ~maps_now(control, control->left_maps.lines[i].user);
    amb_tenants_lose_maps(&control->tenants, control->left_maps.lines[i].tenant, lost);
    *maps &= ~lost;
}

/* Its user's, else one of somebody who has lost all, else a new one. AMB_LEFT_MAPS_MAX: none. */
static uint32_t line_of(struct amb_left_maps *left, uint32_t number, uint32_t tenant)
{
    uint32_t i = 0, unused = left->count;
    for (; i < left->count && left->lines[i].user != number; i++) {
        unused = unused == left->count && left->lines[i].maps == 0 ? i : unused;
    }
    if (i < left->count) {
        return i;
    }
    if (unused == left->count && unused < AMB_LEFT_MAPS_MAX) {
        left->next += left->next == left->count; /* It is compared as it comes. */
        left->count++;
    }
    if (unused < AMB_LEFT_MAPS_MAX) {
        left->lines[unused].tenant = tenant;
        left->lines[unused].user = number;
    }
    return unused;
}

void amb_left_maps_note(struct amb_client *client)
{
    struct amb_control *control = client->control;
    struct amb_left_maps *left = &control->left_maps;
    const struct amb_auth_user *user = client->login.user;
    uint32_t tenant = amb_tenant_number(client->tenant);
    uint64_t maps = amb_client_maps(client);
    if (maps == 0 || (user != NULL && client->rights == NULL)) {
        return; /* It maps nothing, or is the local admin, who loses nothing. */
    }
    if (user == NULL) { /* Users may have come while it was there. */
        if (control->users == NULL) {
            leave_as_other(control, tenant, maps);
        } else {
            amb_tenants_lose_maps(&control->tenants, tenant, maps);
        }
        return;
    }
    uint32_t i = line_of(left, user->number, tenant);
    if (i == AMB_LEFT_MAPS_MAX) {
        uint64_t now = maps_now(control, user->number);
        leave_as_other(control, tenant, maps & now);
        amb_tenants_lose_maps(&control->tenants, tenant, maps & ~now);
        return;
    }
    left->lines[i].maps |= maps;
    line_compare(control, i); /* It may go before its turn to be compared: renew.h. */
}

void amb_left_maps_review(struct amb_control *control)
{
    for (uint32_t i = 0; i < control->tenants.count && control->left_maps.others != 0; i++) {
        struct amb_tenant *tenant = amb_tenants_at(&control->tenants, i);
        amb_tenants_lose_maps(&control->tenants, i, tenant->left_maps);
        tenant->left_maps = 0;
    }
    control->left_maps.others = 0;
    control->left_maps.next = 0;
}

void amb_left_maps_look(struct amb_control *control, int64_t now_s)
{
    struct amb_left_maps *left = &control->left_maps;
    left->now_s = now_s;
    if (left->due_s != 0 && now_s >= left->due_s) {
        left->due_s = 0;
        amb_left_maps_review(control); /* Nobody knows which of the others it is. */
    }
}

bool amb_left_maps_review_next(struct amb_control *control)
{
    struct amb_left_maps *left = &control->left_maps;
    if (left->next == left->count) {
        return false;
    }
    line_compare(control, left->next++);
    return true;
}
