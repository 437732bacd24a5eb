/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's share of UCX: one context and one worker of its own. They are made only for
 * interfaces that the program declared trusted, and only when the broker chose that link. Threads:
 * under the connection's lock, or before it has threads.
 */
#pragma once

#include "wire/base/clock.h"
#include "wire/base/status.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_conn;
struct amb_link_events;
struct amb_ucx_options;

/* How UCX is to be used, once a broker has chosen that link. */
struct amb_client_ucx {
    const struct amb_ucx_options *options; /* devices, lanes, settings */
    const char *library;                   /* transports.library; AMB_UCX_LIBRARY goes before it */
};

/* The UCX that this process has, or would load for a broker of any release (0: none). Loads
 * nothing. And the TCP segment sizes that both sides must agree on. */
uint32_t amb_client_ucx_expect(const struct amb_client_ucx *ucx, uint32_t *tx_seg,
                               uint32_t *rx_seg);
/*
 * The UCX that fits a broker of that release, then context and worker; *release is the UCX's.
 * ucx NULL: no interface is trusted. *error is written on failure. ENOTSUP: there is no such UCX
 * here; others may serve.
 */
AMB_MUST_CHECK enum amb_status amb_client_ucx_prepare(struct amb_conn *conn,
                                                      const struct amb_client_ucx *ucx,
                                                      uint32_t broker, uint32_t *release,
                                                      struct amb_error *error);
/* For Auth; valid as long as the worker. */
uint8_t *amb_client_ucx_address(struct amb_conn *conn, size_t *len);
/* The link to the broker's worker. */
AMB_MUST_CHECK enum amb_status amb_client_ucx_attach(struct amb_conn *conn, const void *address,
                                                     size_t len,
                                                     const struct amb_link_events *events,
                                                     struct amb_error *error);
/* These do nothing without a worker. */
unsigned amb_client_ucx_progress(struct amb_conn *conn);
AMB_MUST_CHECK bool amb_client_ucx_arm(struct amb_conn *conn);
/* How long to sleep then at most; INT64_MAX. */
int64_t amb_client_ucx_sleep_max_ns(const struct amb_conn *conn);
int amb_client_ucx_fd(const struct amb_conn *conn);
/* For the end of a link that was closed. More than 1 GB under way would take longer, and is forced
 * to end. */
#define AMB_CLIENT_UCX_END_NS (10 * AMB_NS_PER_SEC)
/* Waits so long until a link that was closed has ended; then it is forced to, within a second. All
 * that it had is settled afterwards, and there is no worker. Lock held, given up meanwhile. */
void amb_client_ucx_end(struct amb_conn *conn, int64_t most_ns);
/* Destroys worker and context. A link of theirs was closed before. Harmless twice. */
void amb_client_ucx_fini(struct amb_conn *conn);
