/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/ingest in a shard.
 *
 * Threads: the shard's worker. Memory: embedded in the shard.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* Windows of publishers, and publishers that wait for memory: publisher_window.c. */
struct amb_shard_windows {
    struct amb_list_node starving;  /* struct amb_publisher.starving: wait for memory */
    struct amb_list_node rationed;  /* the same: wait until their parties have less of it */
    struct amb_list_node shut;      /* the same: a quota of their users keeps their windows shut */
    int64_t shut_due_ns;            /* when the next of these are asked again */
    struct amb_list_node preparing; /* struct amb_publisher.preparing: have a buffer unused */
    uint64_t max;                   /* bytes that windows may stand open; 0: not asked yet */
    bool is_pressed;                /* the publisher that is served now has waited for long */
};

static inline void amb_shard_windows_init(struct amb_shard_windows *windows)
{
    amb_list_init(&windows->starving);
    amb_list_init(&windows->rationed);
    amb_list_init(&windows->shut);
    amb_list_init(&windows->preparing);
}
