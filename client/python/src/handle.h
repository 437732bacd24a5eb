/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections, publishers and subscriptions have this in common: a session, two gates, and calls
 * inside them.
 * Threads: with the GIL, which is given up by calls that wait. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"
#include "client/python/src/wait.h"

/* amb_pub_close, amb_sub_close. */
typedef enum amb_status (*amb_py_end_fn)(void *handle, int64_t timeout_ns);

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
/* close() of a publisher or a subscription, which does not wait for the broker. */
PyObject *amb_py_handle_close(struct amb_py_handle *self, amb_py_end_fn end);
/* Its last reference is gone: ends it within timeout_ns, and frees it. False: a close of the
 * connection ends it, or has. */
bool amb_py_handle_end(struct amb_py_handle *self, amb_py_end_fn end, int64_t timeout_ns);
/* Frees one whose handle is closed. */
void amb_py_handle_free(struct amb_py_handle *self);
