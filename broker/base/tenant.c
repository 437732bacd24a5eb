/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/tenant.h"

#include "wire/base/array.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 8u

enum amb_status amb_tenants_init(struct amb_tenants *tenants)
{
    struct amb_tenant *operators;
    *tenants = (struct amb_tenants){0};
    enum amb_status status = amb_map_create(&tenants->by_name);
    return status == AMB_OK ? amb_tenants_take(tenants, AMB_TENANT_OPERATORS_NAME, &operators)
                            : status;
}

void amb_tenant_unref(struct amb_tenant **tenant)
{
    struct amb_tenant *t = *tenant;
    *tenant = NULL;
    if (t != NULL && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) {
        free(t);
    }
}

void amb_tenants_fini(struct amb_tenants *tenants)
{
    for (uint32_t i = 0; i < tenants->count; i++) {
        amb_tenant_unref(&tenants->all[i]);
    }
    free(tenants->all);
    if (tenants->by_name != NULL) {
        amb_map_destroy(&tenants->by_name);
    }
    *tenants = (struct amb_tenants){0};
}

static bool make_room(struct amb_tenants *tenants)
{
    void *reached = amb_array_reach(tenants->all, tenants->count, &tenants->room, FIRST_ROOM,
                                    sizeof(*tenants->all));
    tenants->all = reached != NULL ? reached : tenants->all;
    return reached != NULL;
}

enum amb_status amb_tenants_take(struct amb_tenants *tenants, const char *name,
                                 struct amb_tenant **out)
{
    size_t len = strlen(name);
    struct amb_tenant *tenant = amb_map_get(tenants->by_name, name, len);
    if (tenant != NULL) {
        *out = tenant;
        return AMB_OK;
    }
    if (len == 0 || len > AMB_TENANT_NAME_MAX) {
        return AMB_EINVAL;
    }
    if (tenants->count == AMB_TENANTS_MAX) {
        return AMB_ELIMIT;
    }
    tenant = make_room(tenants) ? calloc(1, sizeof(*tenant)) : NULL;
    if (tenant == NULL || amb_map_put(tenants->by_name, name, len, tenant) != AMB_OK) {
        free(tenant);
        return AMB_ENOMEM;
    }
    atomic_init(&tenant->refs, 1);
    amb_account_init(&tenant->account, "tenant", NULL);
    memcpy(tenant->name, name, len);
    tenant->number = tenants->count;
    tenants->all[tenants->count++] = tenant;
    *out = tenant;
    return AMB_OK;
}

struct amb_tenant *amb_tenants_at(const struct amb_tenants *tenants, uint32_t number)
{
    amb_assert(number < tenants->count);
    return tenants->all[number];
}

void amb_tenants_lose_maps(struct amb_tenants *tenants, uint32_t number, uint64_t maps)
{
    amb_tenants_at(tenants, number)->lost_maps |= maps;
    tenants->lost_maps |= maps;
}

const char *amb_tenants_name(const struct amb_tenants *tenants, uint32_t number)
{
    return number < tenants->count ? tenants->all[number]->name : "";
}
