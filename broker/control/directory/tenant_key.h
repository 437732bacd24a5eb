/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the directory's maps: the tenant's number, then a topic's name. So names of two tenants
 * are two names.
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/base/assert.h"
#include "wire/codec/topic.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AMB_TENANT_KEY_MAX (sizeof(uint32_t) + AMB_TOPIC_MAX)

/* Returns the key's length. */
static inline size_t amb_tenant_key(char key[AMB_TENANT_KEY_MAX], uint32_t tenant, const char *name,
                                    size_t len)
{
    amb_assert(len <= AMB_TOPIC_MAX); /* Names and patterns of peers were checked. */
    memcpy(key, &tenant, sizeof(tenant));
    memcpy(key + sizeof(tenant), name, len);
    return sizeof(tenant) + len;
}
