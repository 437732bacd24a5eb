/* SPDX-License-Identifier: Apache-2.0 */
#include "client/subscribe/resume.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/back.h"
#include "client/drive/control.h"
#include "client/drive/notify.h"
#include "client/drive/upcalls.h"
#include "client/drive/wake.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "client/subscribe/arrivals.h"
#include "client/subscribe/position.h"

#include <stdlib.h>

static void on_resumed(struct amb_conn *conn, struct amb_control_request *request)
{
    struct amb_sub *sub = conn->handles.subs[request->handle];
    enum amb_status status = request->status;
    if (sub != NULL && status == AMB_OK) {
        sub->life.is_narrowed = request->is_narrowed;
    }
    if (sub != NULL && status != AMB_OK && amb_status_scope_of(status) != AMB_SCOPE_SESSION) {
        (void)amb_conn_fail(conn, status, "a subscription did not come back: %s", request->text);
        amb_event_sub_closed(conn, sub, status, request->text);
        amb_sub_shut(sub);
        sub->life.is_ending = true;
        amb_conn_wake_all(conn);
    }
    free(request);
    amb_back_one(conn);
}

/* Asks for it; false: no memory. */
static bool ask_again(struct amb_sub *sub)
{
    struct amb_conn *conn = sub->conn;
    struct amb_control_request *request = calloc(1, sizeof(*request));
    Amb__Control__Subscribe *subscribe =
        amb__control__subscribe__unpack(NULL, sub->life.ask_len, sub->life.ask);
    if (request == NULL || subscribe == NULL) {
        free(request);
        amb__control__subscribe__free_unpacked(subscribe, NULL);
        return false;
    }
    size_t len = 0;
    /* A group's place, and a durable name's, is with the broker. */
    bool is_kept = subscribe->group[0] != '\0' || subscribe->durable[0] != '\0';
    uint8_t *position = is_kept ? NULL : amb_position_arrived(sub, conn->again.former_epoch, &len);
    subscribe->start = position != NULL ? AMB_START_POSITION : AMB_START_NEW;
    free(subscribe->position.data);
    subscribe->position.data = position;
    subscribe->position.len = len;
    request->on_answer = on_resumed;
    request->handle = sub->handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.subscribe = subscribe;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    conn->again.missing++;
    amb_control_ask(conn, &message, request);
    amb__control__subscribe__free_unpacked(subscribe, NULL);
    return true;
}

void amb_sub_resume(struct amb_sub *sub, bool is_same_epoch)
{
    struct amb_conn *conn = sub->conn;
    if (conn->session.down != AMB_OK) {
        return;
    }
    amb_acks_begin(&sub->acks); /* First: it may be gone after this. */
    if (!sub->life.is_open || sub->life.is_ending) {
        sub->life.is_gone = true; /* No word on it can leave any more. */
        if (sub->life.is_user_done) {
            conn->handles.subs[sub->handle] = NULL;
            conn->handles.sub_taken[sub->handle] = false;
            amb_sub_unref(sub);
        }
        return;
    }
    amb_release_fini(&sub->release);
    amb_release_init(&sub->release, sub->credit_msgs, sub->credit_bytes);
    if (sub->arrivals.has_ranks) {
        amb_release_at_once(&sub->release);
    }
    sub->saved_msgs = sub->saved_bytes = 0;
    bool is_asked = ask_again(sub);
    if (!is_same_epoch) {
        amb_sub_topics_forget(sub);
        sub->life.is_restarted = true;
    }
    if (!is_asked) {
        amb_conn_lost(conn, AMB_ENOMEM, "no memory to reconnect");
    }
}
