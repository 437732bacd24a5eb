/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/error.h"

#include "client/conn/conn.h"

#include <stdarg.h>
#include <stdio.h>

const char *amb_strerror(enum amb_status status)
{
    return amb_status_text(status);
}

enum amb_scope amb_status_scope(enum amb_status status)
{
    return amb_status_scope_of(status);
}

const char *amb_version(void)
{
    return AMB_VERSION;
}

enum amb_status amb_conn_fail(struct amb_conn *conn, enum amb_status status, const char *format,
                              ...)
{
    if (status == AMB_EAGAIN || status == AMB_ETIMEDOUT || status == AMB_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&conn->error.lock);
    conn->error.last.status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(conn->error.last.text, sizeof(conn->error.last.text), format, args);
    va_end(args);
    (void)pthread_mutex_unlock(&conn->error.lock);
    return status;
}

struct amb_error amb_last_error(const struct amb_conn *conn)
{
    if (conn == NULL) {
        return (struct amb_error){.status = AMB_EINVAL, .text = "no connection"};
    }
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return (struct amb_error){.status = AMB_EFORKED,
                                  .text = "the connection belongs to the parent process"};
    }
    struct amb_conn *own = (struct amb_conn *)(uintptr_t)conn;
    (void)pthread_mutex_lock(&own->error.lock);
    struct amb_error error = own->error.last;
    (void)pthread_mutex_unlock(&own->error.lock);
    return error;
}

enum amb_status amb_conn_trouble(struct amb_conn *conn, uint32_t which)
{
    /* Acquire: pairs with the release that sets DOWN after `down` and its text are written. */
    uint32_t trouble = atomic_load_explicit(&conn->trouble, memory_order_acquire) & which;
    if (__builtin_expect(trouble == 0, 1)) {
        return AMB_OK;
    }
    if ((trouble & AMB_TROUBLE_FORKED) != 0) {
        return AMB_EFORKED;
    }
    if ((trouble & AMB_TROUBLE_STOPPED) != 0) {
        return amb_conn_fail(conn, AMB_ESTOPPED, "amb_stop was called");
    }
    if ((trouble & AMB_TROUBLE_DOWN) != 0) {
        return amb_conn_fail(conn, conn->session.down, "%s", conn->session.down_text);
    }
    return amb_conn_fail(conn, AMB_ECLOSED, "the connection is being closed");
}

const char *amb_conn_reason(struct amb_conn *conn, enum amb_status status)
{
    /* Acquire: as in amb_conn_trouble; the lock need not be held. */
    bool is_down =
        (atomic_load_explicit(&conn->trouble, memory_order_acquire) & AMB_TROUBLE_DOWN) != 0;
    return is_down && status == conn->session.down ? conn->session.down_text
                                                   : amb_status_text(status);
}
