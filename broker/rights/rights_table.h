/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights that somebody has now, each set of them once. The sessions of all users with the same
 * roles share one, unless a pattern has %u or %t.
 *
 * Threads: the control thread. Memory: an entry for each.
 */
#pragma once

#include "broker/rights/rights.h"

struct amb_map;

struct amb_rights_table {
    struct amb_map *by_key;
    uint64_t generation; /* of the roles: rights of former ones are not found any more */
};

AMB_MUST_CHECK enum amb_status amb_rights_table_init(struct amb_rights_table *table);
/* Rights outlive it. Harmless on a zeroed one. */
void amb_rights_table_fini(struct amb_rights_table *table);
/* The roles are other ones from here on. */
void amb_rights_table_renew(struct amb_rights_table *table);
/* The rights of that user, with a reference for the caller. As amb_rights_make. */
AMB_MUST_CHECK enum amb_status amb_rights_take(struct amb_rights_table *table,
                                               const struct amb_rights_of *of,
                                               struct amb_rights **out);
/* For rights.c: nobody has them any more. */
void amb_rights_table_forget(struct amb_rights *rights);
