/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a publisher of requests keeps of them; inbox.c works on it.
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Outcomes that a request may still learn of when it is entered late. */
#define AMB_UNMATCHED_MAX 16u

/* Batches of requests of one publisher that reached nobody. */
struct amb_unmatched {
    uint64_t first, last;
    enum amb_status status;
};

/* Of a publisher that carries requests; else all zero. */
struct amb_asking {
    bool is_on;
    struct amb_list_node asked; /* struct amb_asked.of_pub */
    struct amb_unmatched recent[AMB_UNMATCHED_MAX];
    uint32_t next;
};
