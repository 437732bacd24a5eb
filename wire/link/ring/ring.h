/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring link: two byte rings and two control pages in one sealed memfd that the broker makes
 * for one session. See link.h for what it promises and docs/wire.md for the layout.
 *
 * The client can write every byte of the mapping at any time. So both sides copy before they look,
 * believe an index only if it is monotonic and within the ring, and keep their own positions
 * privately. One eventfd is the bell of both, see ring_bell.h: a client cannot make the broker
 * block by it. Threads and Memory: those of link.h; making and attaching: any thread.
 */
#pragma once

#include "wire/link/link.h"

#define AMB_RING_SIZE_MIN (UINT64_C(64) << 10)
#define AMB_RING_SIZE_DEFAULT (UINT64_C(1) << 20)
#define AMB_RING_SIZE_MAX (UINT64_C(64) << 20)

/* The descriptors that travel to the client with Welcome, in this order. */
struct amb_ring_fds {
    int memory; /* the memfd, sealed against growing, shrinking and further seals */
    int bell;   /* the eventfd of both */
};

/*
 * Broker's side.
 *
 *   size     bytes of each ring, a power of two of at least 64 KiB
 *   events   NULL: the link is idle until amb_ring_adopt, which another thread may call
 *   *fds     belong to the caller, who sends them to the client and closes them
 *
 * ENOMEM, ELIMIT (descriptors), EINVAL, ENOTSUP: the system is older than Linux 5.8.
 */
AMB_MUST_CHECK enum amb_status amb_ring_create(uint64_t size, const struct amb_link_events *events,
                                               void *arg, struct amb_ring_fds *fds,
                                               struct amb_link **out);
/* False: this system is too old, and amb_ring_create would say ENOTSUP. For starts. */
bool amb_ring_is_possible(void);
/* The owner that a link without events speaks to from here on. */
void amb_ring_adopt(struct amb_link *link, const struct amb_link_events *events, void *arg);
/* Client's side. Takes the two descriptors, also on failure. EPROTO: they are not what they
 * should be. */
AMB_MUST_CHECK enum amb_status amb_ring_attach(uint64_t size, const struct amb_ring_fds *fds,
                                               const struct amb_link_events *events, void *arg,
                                               struct amb_link **out);
