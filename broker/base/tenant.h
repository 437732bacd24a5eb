/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: each has topics, names and events of its own, and knows nothing of the others'. A tenant
 * is a number in the keys of the directory, and the wire does not know it.
 *
 * The operators' tenant "$" has the number 0. Where there is no users file everybody is of it.
 *
 * Threads: the control thread. A number may be compared anywhere, and references may be given up
 * anywhere. Memory: one allocation each. They live as long as the table, so that a number never
 * means another tenant.
 */
#pragma once

#include "broker/base/account.h"
#include "wire/base/hash.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_TENANT_OPERATORS 0u
#define AMB_TENANT_OPERATORS_NAME "$"
#define AMB_TENANT_ANY UINT32_MAX /* in a question: all of them */
#define AMB_TENANT_NAME_MAX 64u
#define AMB_TENANTS_MAX 100000u

struct amb_tenant {
    _Atomic uint32_t refs; /* the table's, and those of users of it */
    uint32_t number;
    struct amb_account account; /* of all its users */
    /* Trust groups, a bit each, of which segments are to be retired, and those that left without a
     * line: control/clients/left_maps.h. */
    uint64_t lost_maps, left_maps;
    char name[AMB_TENANT_NAME_MAX + 1];
};

struct amb_tenants {
    struct amb_map *by_name;
    struct amb_tenant **all; /* by number */
    uint32_t count, room;
    uint64_t lost_maps; /* of any tenant */
};

/* With that of the operators. */
AMB_MUST_CHECK enum amb_status amb_tenants_init(struct amb_tenants *tenants);
/* Harmless on a zeroed one. */
void amb_tenants_fini(struct amb_tenants *tenants);
/* The tenant of that name, made if there is none. EINVAL: the name is too long; ELIMIT; ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_tenants_take(struct amb_tenants *tenants, const char *name,
                                                struct amb_tenant **out);
static inline struct amb_tenant *amb_tenant_ref(struct amb_tenant *tenant)
{
    if (tenant != NULL) {
        (void)atomic_fetch_add_explicit(&tenant->refs, 1, memory_order_relaxed);
    }
    return tenant;
}
/* Sets *tenant to NULL, and does nothing else where it is NULL already. */
void amb_tenant_unref(struct amb_tenant **tenant);
/* The tenant of that number, which there is. */
struct amb_tenant *amb_tenants_at(const struct amb_tenants *tenants, uint32_t number);
/* The name of a tenant by its number; "": there is none. */
const char *amb_tenants_name(const struct amb_tenants *tenants, uint32_t number);

/* NULL: the operators'. */
static inline uint32_t amb_tenant_number(const struct amb_tenant *tenant)
{
    return tenant == NULL ? AMB_TENANT_OPERATORS : tenant->number;
}
/* Segments of these trust groups, a bit each, are to be retired. */
void amb_tenants_lose_maps(struct amb_tenants *tenants, uint32_t number, uint64_t maps);

/* Is `number` among those that a question is about? */
static inline bool amb_tenant_is_asked(uint32_t asked, uint32_t number)
{
    return asked == AMB_TENANT_ANY || asked == number;
}
