/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String map: open hashing over entries that the map copies. The key of its SipHash-2-4 is random,
 * so names chosen by a peer cannot be made to collide.
 * Threads: owner only. Memory: one allocation per entry, one table that doubles.
 */
#pragma once

#include "wire/base/status.h"

#include <stddef.h>
#include <stdint.h>

struct amb_map; /* opaque */

AMB_MUST_CHECK enum amb_status amb_map_create(struct amb_map **out);
/* Entries' values are the caller's; destroy frees keys and table only. Sets *map to NULL. */
void amb_map_destroy(struct amb_map **map);
/* ESTATE if the key is there already. The key is copied. */
AMB_MUST_CHECK enum amb_status amb_map_put(struct amb_map *map, const char *key, size_t key_len,
                                           void *value);
/* NULL if absent. */
void *amb_map_get(const struct amb_map *map, const char *key, size_t key_len);
/* The value, or NULL if absent. */
void *amb_map_remove(struct amb_map *map, const char *key, size_t key_len);
size_t amb_map_count(const struct amb_map *map);
/* Calls fn for each entry in no particular order until it returns false. fn may not change it. */
void amb_map_each(const struct amb_map *map, _Bool (*fn)(const char *key, void *value, void *arg),
                  void *arg);

uint64_t amb_siphash24(const uint8_t key[16], const void *data, size_t len);
/* Fills from getrandom(2); aborts where the kernel has none. */
void amb_random_bytes(void *out, size_t len);
