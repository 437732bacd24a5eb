/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/tx.h"

#include "client/conn/conn.h"

enum amb_status amb_conn_tx_send(struct amb_conn *conn, struct amb_conn_tx *out)
{
    if (amb_conn_is_cut(conn)) {
        return conn->session.down != AMB_OK ? conn->session.down : AMB_ECLOSED;
    }
    out->frame.session = conn->session.id;
    out->frame.generation = conn->session.generation;
    out->frame.secret = conn->session.secret;
    out->tx.frame = &out->frame;
    out->is_queued = true;
    enum amb_status status = amb_link_send(conn->link, &out->tx);
    out->is_queued = status == AMB_EAGAIN;
    conn->link_state.must_flush = conn->link_state.has_spoken = true;
    return status;
}

bool amb_conn_tx_move(struct amb_conn *conn, struct amb_conn_tx *out, const void *data)
{
    return amb_link_tx_move(conn->link, &out->tx, data);
}
