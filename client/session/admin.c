/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_admin: a question on the control connection, its answer as a message.
 */
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/back.h"
#include "client/drive/control.h"
#include "client/drive/lock.h"
#include "client/message/arrival.h"
#include "client/message/returns.h"

#include <stdlib.h>
#include <string.h>

#define QUERY_MAX 4096u

/* A message of its own, laid out like a batch of one. Lock held. */
static struct amb_msg *wrap(struct amb_conn *conn, const uint8_t *json, size_t len)
{
    struct amb_arrival *arrival = amb_arrival_create(conn, 1);
    if (arrival == NULL) {
        return NULL;
    }
    uint64_t padded = amb_payload_padded(len);
    arrival->body_len = padded + sizeof(struct amb_record);
    arrival->buffer_len = arrival->body_len;
    arrival->body = arrival->buffer = amb_buffers_get(&conn->receive.buffers, arrival->body_len);
    if (arrival->body == NULL) {
        amb_arrival_discard(arrival);
        return NULL;
    }
    memset(arrival->body, 0, arrival->body_len);
    if (len != 0) {
        memcpy(arrival->body, json, len);
    }
    const struct amb_record record = {.len = (uint32_t)len};
    memcpy(arrival->body + padded, &record, sizeof(record));
    arrival->frame = (struct amb_frame){
        .type = AMB_FRAME_DELIVER, .count = 1, .data_len = padded, .meta_len = sizeof(record)};
    arrival->time_ns = amb_clock_realtime_ns();
    amb_body_iter_init(&arrival->iter, arrival->body, padded, 1);
    struct amb_msg *msg = NULL;
    (void)amb_arrival_take(arrival, &msg, 1);
    return msg;
}

enum amb_status amb_admin(struct amb_conn *conn, const char *query, int64_t timeout_ns,
                          struct amb_msg **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (conn == NULL || query == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    enum amb_status status =
        amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    if (status != AMB_OK) {
        return status;
    }
    char text[QUERY_MAX];
    size_t len = strnlen(query, sizeof(text));
    if (len == sizeof(text)) {
        return amb_conn_fail(conn, AMB_EINVAL, "a query has at most %u bytes", QUERY_MAX - 1);
    }
    memcpy(text, query, len + 1);
    struct amb_control_request request = {0};
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Admin admin;
    amb__control__admin__init(&admin);
    admin.query = text;
    message.admin = &admin;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN;
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    status = amb_back_await(conn);
    if (status == AMB_OK) {
        amb_control_ask(conn, &message, &request);
        status = amb_control_wait(conn, &request, timeout_ns, 0);
    }
    if (status == AMB_OK) {
        *out = wrap(conn, request.json, request.json_len);
        status = *out != NULL ? AMB_OK : AMB_ENOMEM;
    }
    amb_conn_unlock(conn);
    free(request.json);
    if (status != AMB_OK) {
        (void)amb_conn_fail(conn, status, "%s: %s", text,
                            request.is_done ? request.text : amb_status_text(status));
    }
    return amb_conn_leave(conn, status);
}
