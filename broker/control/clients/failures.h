/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failed logins by the address they came from. A peer that fails three times within ten seconds
 * waits for its answer from then on, until ten seconds have passed without a failure. So guessing
 * is slow, and a typing error costs nothing. All addresses of one IPv6 /64 count as one.
 *
 * Threads: owner. Memory: a fixed table; a crowd of addresses pushes the oldest out.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdint.h>

#define AMB_FAILURES_FREE 2u /* of one address without a delay */
#define AMB_FAILURES_SPAN_NS (10 * AMB_NS_PER_SEC)
#define AMB_FAILURES_DELAY_NS (1 * AMB_NS_PER_SEC)
#define AMB_FAILURES_ADDRESSES 256u

struct amb_failure {
    char host[48]; /* an address without its port, or a /64; "": unused */
    unsigned count;
    int64_t last_ns;
};

/* Zero-initialised. */
struct amb_failures {
    struct amb_failure known[AMB_FAILURES_ADDRESSES];
};

/* One more of "host:port", now. Returns by how much its answer is to be delayed. */
int64_t amb_failures_note(struct amb_failures *failures, const char *address, int64_t now_ns);
