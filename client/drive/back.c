/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/back.h"

#include "client/conn/conn.h"
#include "client/drive/drive.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "wire/base/assert.h"

static void restored(struct amb_conn *conn)
{
    atomic_fetch_and_explicit(&conn->trouble, ~AMB_TROUBLE_AWAY, memory_order_release);
    conn->again.tried = 0;
    amb_event_session(conn, AMB_EVENT_RESTORED, AMB_OK, "the broker is back");
    amb_notify_callback(conn);
    amb_conn_changed(conn);
    amb_conn_wake_all(conn);
}

void amb_back_one(struct amb_conn *conn)
{
    amb_assert(conn->again.missing != 0);
    if (--conn->again.missing == 0 && conn->session.down == AMB_OK) {
        restored(conn);
    }
}

static bool is_back(void *arg)
{
    const struct amb_conn *conn = arg;
    return !amb_conn_has_trouble(conn, AMB_TROUBLE_AWAY);
}

enum amb_status amb_back_await(struct amb_conn *conn)
{
    if (__builtin_expect(is_back(conn), 1)) {
        return AMB_OK;
    }
    struct amb_wait wait = {.is_ready = is_back,
                            .arg = conn,
                            .timeout_ns = conn->settings.timeout_ns,
                            .flags = AMB_WAIT_STOPPABLE | AMB_WAIT_CONTROL};
    enum amb_status status = amb_conn_wait_asking(conn, &wait);
    bool is_own = status == AMB_ESTOPPED || status == AMB_ECLOSED || status == AMB_ECANCELED;
    return status == AMB_OK || is_own ? status : AMB_ELOST;
}
