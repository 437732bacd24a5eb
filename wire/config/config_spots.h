/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of elements of lists, and of the keys in them. A list may be in another order later.
 * So an element goes by its name.
 * Threads: one at a time. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

struct amb_config_spot;

/* A list is set anew: its places go. list: of the schema. */
void amb_config_spots_forget(struct amb_config_store *store, const char *list);
/* A key of the element that is being made, or with "" the element itself. Both texts live as long
 * as the schema. Without memory it is not known. */
void amb_config_spot_add(struct amb_config_store *store, const char *list, const char *key,
                         const struct amb_config_place *place);
/* That element has been made: the places since the last one are of this name. */
void amb_config_spots_name(struct amb_config_store *store, const char *name);
/* The configuration is made: many questions are quick from now on. Without memory each one looks at
 * all places. */
void amb_config_spots_order(struct amb_config_store *store);
/* NULL: not known. A key that was not written is where its element is. */
const struct amb_config_place *amb_config_spot_find(const struct amb_config_store *store,
                                                    const char *list, const char *name,
                                                    const char *key);
