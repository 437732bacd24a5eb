/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/ucx.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "wire/base/assert.h"
#include "wire/link/ucx/ucx_link.h"
#include "wire/link/ucx/ucx_worker.h"
#include "wire/link/ucxlib/ucx_context.h"
#include "wire/link/ucxlib/ucx_lanes.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_prove.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <sched.h>
#include <stdio.h>

static struct amb_ucx_wish wish_for(const struct amb_client_ucx *ucx, uint32_t broker)
{
    struct amb_ucx_wish wish = {.library = ucx->library,
                                .source = "transports.library",
                                .has_rdma = amb_ucx_has_rdma("", ucx->options->net_devices),
                                .peer = broker};
    amb_ucx_wish_environment(&wish);
    return wish;
}

uint32_t amb_client_ucx_expect(const struct amb_client_ucx *ucx, uint32_t *tx_seg, uint32_t *rx_seg)
{
    struct amb_ucx_library library;
    char error[256];
    const struct amb_ucx_wish wish = wish_for(ucx, 0);
    amb_ucx_segment_sizes(tx_seg, rx_seg);
    return amb_ucx_library_expect(&wish, error, sizeof(error), &library) == AMB_OK ? library.release
                                                                                   : 0;
}

static enum amb_status load(const struct amb_ucx_wish *wish, struct amb_error *error)
{
    char text[sizeof(error->text)];
    enum amb_status status = amb_ucx_library_load(wish, text, sizeof(text));
    if (status != AMB_OK) {
        (void)snprintf(error->text, sizeof(error->text), "link ucx: %.*s", (int)sizeof(text) - 12,
                       text);
    }
    return status;
}

enum amb_status amb_client_ucx_prepare(struct amb_conn *conn, const struct amb_client_ucx *ucx,
                                       uint32_t broker, uint32_t *release, struct amb_error *error)
{
    if (ucx == NULL) {
        error->status = AMB_EFORBIDDEN;
        (void)snprintf(error->text, sizeof(error->text),
                       "link=ucx opens a UCX port, which gives whoever reaches it this process: "
                       "name the interfaces in options.trusted_network or AMB_TRUSTED");
        return AMB_EFORBIDDEN;
    }
    const struct amb_ucx_wish wish = wish_for(ucx, broker);
    enum amb_status status = load(&wish, error);
    if (status == AMB_OK) {
        *release = amb_ucx_release();
        status = amb_ucx_context_create(ucx->options, error->text, sizeof(error->text),
                                        &conn->ucx.context);
    }
    if (status == AMB_OK) {
        status = amb_ucx_context_prove(conn->ucx.context, error->text, sizeof(error->text));
    }
    if (status == AMB_OK) {
        status = amb_ucx_worker_create(conn->ucx.context, true, &conn->ucx.worker);
        if (status != AMB_OK) {
            (void)snprintf(error->text, sizeof(error->text), "UCX gives no worker on '%s'",
                           ucx->options->net_devices);
        }
    }
    error->status = status;
    return status;
}

uint8_t *amb_client_ucx_address(struct amb_conn *conn, size_t *len)
{
    return (uint8_t *)(uintptr_t)amb_ucx_worker_address(conn->ucx.worker, len);
}

enum amb_status amb_client_ucx_attach(struct amb_conn *conn, const void *address, size_t len,
                                      const struct amb_link_events *events, struct amb_error *error)
{
    enum amb_status status = AMB_EPROTO;
    if (conn->ucx.worker != NULL && len != 0) {
        status = amb_ucx_link_create(conn->ucx.worker, address, len, conn->session.id,
                                     conn->session.generation, conn->session.secret, events, conn,
                                     &conn->link);
    }
    if (status != AMB_OK) {
        error->status = status;
        (void)snprintf(error->text, sizeof(error->text),
                       "UCX cannot reach the broker's worker from here");
    }
    return status;
}

unsigned amb_client_ucx_progress(struct amb_conn *conn)
{
    return conn->ucx.worker != NULL ? amb_ucx_worker_progress(conn->ucx.worker) : 0;
}

bool amb_client_ucx_arm(struct amb_conn *conn)
{
    return conn->ucx.worker == NULL || amb_ucx_worker_arm(conn->ucx.worker);
}

int64_t amb_client_ucx_sleep_max_ns(const struct amb_conn *conn)
{
    return conn->ucx.worker != NULL ? amb_ucx_worker_sleep_max_ns(conn->ucx.worker) : INT64_MAX;
}

int amb_client_ucx_fd(const struct amb_conn *conn)
{
    return conn->ucx.worker != NULL ? amb_ucx_worker_fd(conn->ucx.worker) : -1;
}

/* Until the link has ended, or so long. Lock held, given up meanwhile. */
static void wait_ended(struct amb_conn *conn, int64_t most_ns)
{
    const int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), most_ns);
    while (conn->link != NULL && conn->ucx.worker != NULL && amb_clock_monotonic_ns() < deadline) {
        (void)amb_client_ucx_progress(conn);
        amb_conn_unlock(conn);
        (void)sched_yield();
        amb_conn_lock(conn);
    }
}

void amb_client_ucx_end(struct amb_conn *conn, int64_t most_ns)
{
    wait_ended(conn, most_ns);
    if (conn->link != NULL && conn->ucx.worker != NULL) {
        amb_ucx_worker_force(conn->ucx.worker);
        wait_ended(conn, AMB_UCX_SETTLE_NS); /* Its worker would wait with the lock held. */
    }
    amb_client_ucx_fini(conn);
    amb_assert(conn->link == NULL); /* Rings and streams end in amb_link_close. */
}

void amb_client_ucx_fini(struct amb_conn *conn)
{
    amb_ucx_worker_destroy(&conn->ucx.worker);
    amb_ucx_context_destroy(&conn->ucx.context);
}
