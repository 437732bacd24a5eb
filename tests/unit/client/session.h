/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of the tests with a fake broker. */
#pragma once

#include "client/conn/conn.h"
#include "tests/support/fake_broker/fake_broker.h"

#include <amb/amb.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct session {
    struct fake_broker *fake;
    struct amb_conn *conn;
    struct fake_seen seen;
};

static inline void session_open(struct session *session, const struct fake_options *options,
                                const struct amb_options *client)
{
    memset(session, 0, sizeof(*session));
    session->fake = fake_broker_start(options);
    /* A lost session stays lost, unless the test says otherwise. */
    struct amb_options own = AMB_INIT(amb_options);
    own = client != NULL ? *client : own;
    own.reconnect_attempts = own.reconnect_attempts != 0 ? own.reconnect_attempts : AMB_NONE;
    assert_int_equal(amb_connect(fake_broker_url(session->fake), &own, &session->conn), AMB_OK);
}

static inline void session_close(struct session *session)
{
    (void)amb_close(session->conn, AMB_NOWAIT);
    fake_broker_stop(session->fake);
}

/* Until `count` calls of other threads wait on the connection. */
static inline void session_wait_inside(struct session *session, uint32_t count)
{
    while (atomic_load(&session->conn->inside) != count) {
        fake_broker_nap();
    }
}

static inline void assert_payload(const struct amb_msg *msg, const char *text)
{
    assert_int_equal(amb_msg_size(msg), strlen(text));
    assert_memory_equal(amb_msg_data(msg), text, strlen(text));
}
