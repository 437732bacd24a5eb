/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between UCX releases, as answers about one. A build has the headers of one
 * release and may load another: older, newer, or the same. Nothing else compares releases.
 * Threads: any. Memory: pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A release as one number, as it is on the wire: 0 is no UCX, or one that is not known yet. */
#define AMB_UCX_RELEASE(major, minor, patch)                                                       \
    ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(patch))
#define AMB_UCX_RELEASE_OLDEST AMB_UCX_RELEASE(1, 13, 0)
#define AMB_UCX_RELEASE_TEXT_MAX 24u

/* "1.22.0"; of 0 "an unknown release". Returns out. */
const char *amb_ucx_release_text(uint32_t release, char *out, size_t size);
/*
 * The version of the interface to name in ucp_init_version: the library's, or that of the headers
 * we are built with where they are older. UCX then takes structs as these headers have them.
 */
void amb_ucx_release_interface(uint32_t release, unsigned *major, unsigned *minor);
/* The release of the headers. */
uint32_t amb_ucx_release_built(void);

/* Do the two understand each other? 0 is on no side of anything: false. */
bool amb_ucx_releases_fit(uint32_t a, uint32_t b);
/*
 * May these two releases and segment sizes talk over TCP? False: *why (static) says what differs.
 */
bool amb_ucx_compatible(uint32_t release_a, uint32_t tx_a, uint32_t rx_a, uint32_t release_b,
                        uint32_t tx_b, uint32_t rx_b, const char **why);

/* Keys of transports are given to ucp_config_modify with their prefix, "TCP_". */
bool amb_ucx_release_wants_prefix(uint32_t release);
/* Protocols v2 work; before, they abort. */
bool amb_ucx_release_has_protocols(uint32_t release);
/* The end of one cuda_ipc endpoint unmaps memory that others use. */
bool amb_ucx_release_unmaps(uint32_t release);
/* The memory that cuda_ipc keeps open can be bounded. Before, a key of that name would be tried on
 * transports that mean another thing by it. */
bool amb_ucx_release_bounds_ipc(uint32_t release);
/* Progress on a thread needs no CUDA context of its own. */
bool amb_ucx_release_frees_threads(uint32_t release);
/* ucp_ep_query knows UCP_EP_ATTR_FIELD_TRANSPORTS. */
bool amb_ucx_release_tells_lanes(uint32_t release);
