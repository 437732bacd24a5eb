/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Subscribe asks for: may it be had?
 * Threads: control. Memory: none but the filter.
 */
#pragma once

#include "broker/control/clients/client.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_filter;

/* False: the client has been told why not, as the answer to request `id`. *cut: permit.h. */
bool amb_wish_check(struct amb_client *client, uint64_t id,
                    const Amb__Control__Subscribe *subscribe, struct amb_rights_cut *cut);
/* The same of its filter; NULL in *out: it has none. */
bool amb_wish_filter(struct amb_client *client, uint64_t id,
                     const Amb__Control__Subscribe *subscribe, struct amb_filter **out);
