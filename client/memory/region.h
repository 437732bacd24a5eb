/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory that the program has registered. An address that an allocator of the program
 * gives out is looked up here. A region is not given back while a message lies there.
 *
 * Threads: any; a lock of its own, below all others. Memory: one block a region.
 */
#pragma once

#include <stdint.h>

struct amb_conn;
struct amb_region;

/* A message is brought to that address. NULL: it is in no region. */
struct amb_region *amb_region_enter(struct amb_conn *conn, uint64_t address);
/* The message has gone. region may be NULL. */
void amb_region_leave(struct amb_region *region);
void amb_regions_init(struct amb_conn *conn);
/* No message is out any more. */
void amb_regions_fini(struct amb_conn *conn);
