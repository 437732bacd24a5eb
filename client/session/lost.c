/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/lost.h"

#include "client/batch/pub_settle.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/control.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/memory/import.h"
#include "client/memory/slots_life.h"
#include "client/memory/view.h"
#include "client/message/returns.h"
#include "client/session/life.h"

#include <stdio.h>

/* Why, for good or for now. */
static void note_down(struct amb_conn *conn, enum amb_status why, const char *text)
{
    conn->session.down = why;
    (void)snprintf(conn->session.down_text, sizeof(conn->session.down_text), "%s",
                   text != NULL && text[0] != '\0' ? text : amb_status_text(why));
}

void amb_session_down(struct amb_conn *conn, enum amb_status why, const char *text)
{
    note_down(conn, why, text);
    amb_conn_close_link(conn);
    amb_control_fail_all(conn, why, conn->session.down_text);
}

void amb_session_end(struct amb_conn *conn, enum amb_status why)
{
    /* Release: pairs with the acquire of amb_conn_trouble, which reads `down` and its text. */
    atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_DOWN, memory_order_release);
    for (uint32_t i = 0; i < conn->handles.pub_high; i++) {
        if (conn->handles.pubs[i] != NULL) {
            amb_pub_settle_all(conn->handles.pubs[i], why);
        }
    }
}

void amb_session_let_go(struct amb_conn *conn)
{
    if (conn->session.has_let_go || conn->link != NULL || conn->again.is_running) {
        return;
    }
    conn->session.has_let_go = true;
    amb_arrival_take_back(conn);
    amb_views_orphan(conn);
    amb_leases_drop_all(conn);
    amb_imports_over(conn);
}

void amb_session_event(struct amb_conn *conn, bool is_lost)
{
    (void)amb_conn_fail(conn, conn->session.down, "%s", conn->session.down_text);
    amb_event_session(conn, is_lost ? AMB_EVENT_LOST : AMB_EVENT_CLOSED, conn->session.down,
                      conn->session.down_text);
}

void amb_session_wake(struct amb_conn *conn)
{
    amb_notify_callback(conn);
    amb_conn_changed(conn);
    amb_conn_wake_all(conn);
    if (conn->io.has_thread) {
        amb_io_kick(conn);
    }
}

void amb_conn_give_up(struct amb_conn *conn, enum amb_status why, const char *text)
{
    note_down(conn, why, text);
    amb_session_end(conn, why);
    amb_session_event(conn, false);
    amb_session_wake(conn);
}
