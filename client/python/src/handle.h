/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections, publishers and subscriptions have this in common: a session, two gates, and calls
 * inside them.
 * Threads: with the GIL, which is given up by calls that wait. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"
#include "client/python/src/wait.h"

/* A call of libamb on a handle, without the GIL unless timeout_ns is AMB_NOWAIT. */
typedef enum amb_status (*amb_py_handle_fn)(void *handle, int64_t timeout_ns);

/* How a publisher or a subscription ends. */
struct amb_py_end {
    amb_py_handle_fn await; /* waits until `end` need not wait; NULL: it never has to */
    amb_py_handle_fn end;   /* amb_pub_close, amb_sub_close */
};

static inline struct amb_py_handle *amb_py_handle_of(PyObject *object)
{
    return (struct amb_py_handle *)(void *)object;
}

/* One reference more. */
struct amb_py_session *amb_py_session_ref(struct amb_py_session *session);
/* One reference less. The last one closes the connection, and waits for the broker a second at
 * most. */
void amb_py_session_drop(struct amb_py_session *session);
/* Enters both gates. False: Closed is raised. */
bool amb_py_enter(struct amb_py_handle *self);
/* The same without an exception. */
bool amb_py_try_enter(struct amb_py_handle *self);
void amb_py_leave(struct amb_py_handle *self);
/* A call inside both gates. Returns its answer; any but AMB_OK is raised. */
enum amb_status amb_py_run(struct amb_py_handle *self, const struct amb_py_call *call,
                           int64_t timeout_ns);
/* A new object of that type. Takes no reference to the session on failure. */
PyObject *amb_py_handle_new(PyTypeObject *type, struct amb_py_state *state,
                            struct amb_py_session *session, void *handle);
/* close() of a publisher or a subscription, which does not wait for the broker. NULL: an exception
 * is raised. Where that is a signal's, or patience_ns are over, it has not ended: its last
 * reference ends it, or the close of the connection. */
PyObject *amb_py_handle_close(struct amb_py_handle *self, const struct amb_py_end *how,
                              int64_t patience_ns);
/* Its last reference is gone: ends it, and frees the object. False: its end is left to the
 * connection, which is being closed, or how->await did not answer AMB_OK within timeout_ns. */
bool amb_py_handle_end(struct amb_py_handle *self, const struct amb_py_end *how,
                       int64_t timeout_ns);
/* Frees one whose handle is closed. */
void amb_py_handle_free(struct amb_py_handle *self);
