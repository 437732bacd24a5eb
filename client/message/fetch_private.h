/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of fetch.c: one piece of a payload that was asked for.
 * Threads: under the connection's lock. Memory: the heap's, until its caller has gone and the link
 * has nothing of it.
 */
#pragma once

#include "client/drive/tx.h"
#include "client/message/fetch.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_view;

enum amb_fetch_state {
    AMB_FETCH_ASKED,
    AMB_FETCH_COMING,
    AMB_FETCH_DONE,
};

struct amb_fetch {
    struct amb_conn_tx out;
    struct amb_list_node node; /* in conn->fetch.open until its answer is here */
    struct amb_conn *conn;
    uint64_t id, offset, len; /* 0, 0: all of it, in place */
    uint64_t whole;           /* of the message */
    uint8_t *buffer;          /* NULL: not wanted any more, or asked for in place */
    const uint8_t *place;     /* where it lies, */
    struct amb_view *view;    /* in there; a delivery of it is counted for us */
    uint32_t life;            /* of the session that was asked */
    enum amb_fetch_state state;
    enum amb_status status;
    bool is_abandoned; /* its caller has gone */
};
