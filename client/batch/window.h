/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window of a publisher: how many bytes the broker lets leave, and how many it was asked for.
 * Batches of leased messages are outside the window.
 *
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_pub;

struct amb_pub_window {
    uint64_t sent;                    /* bytes of all batches in this session */
    uint64_t leased;                  /* ... of which so many are outside the window */
    uint64_t granted;                 /* bytes that may be sent in all */
    uint64_t wanted;                  /* bytes that the broker was asked to grant */
    uint64_t need;                    /* size of the batch that found no room */
    uint64_t limit_msgs, limit_bytes; /* the program's own limits, of what is not settled */
};

/* Is there window for `size` more bytes? If not, the broker knows what is wanted. Lock held, and
 * there is a link. */
bool amb_pub_has_window(struct amb_pub *pub, uint64_t size);
