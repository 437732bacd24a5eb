/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of higher rooms that lower ones call; see upcalls.h.
 */
#include "client/batch/flush.h"
#include "client/drive/upcalls.h"
#include "client/message/returns.h"
#include "client/publish/room_event.h"
#include "client/session/dispatch.h"
#include "client/session/life.h"
#include "client/session/reconnect.h"
#include "client/subscribe/ack.h"

const struct amb_conn_upcalls amb_upcalls = {
    .take_back = amb_arrival_take_back,
    .flush_due = amb_pub_flush_due,
    .acks_send = amb_acks_send,
    .service = amb_control_service,
    .hear_out = amb_control_hear_out,
    .timers = amb_conn_timers,
    .spin = amb_conn_spin,
    .look_for_room = amb_rooms_look,
    .lost = amb_session_lost,
    .end = amb_conn_free,
};
