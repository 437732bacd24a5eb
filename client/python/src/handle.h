/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers and subscriptions have this in common: a session, two gates.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* One reference less; the last one closes the connection without waiting. */
void amb_py_session_drop(struct amb_py_session *session);
/* Enters both gates. False: Closed is raised. */
bool amb_py_enter(struct amb_py_handle *self);
void amb_py_leave(struct amb_py_handle *self);
/* A new object of that type. Takes no reference to the session on failure. */
PyObject *amb_py_handle_new(PyTypeObject *type, struct amb_py_state *state,
                            struct amb_py_session *session, void *handle);
/* Frees one whose handle is closed. */
void amb_py_handle_free(struct amb_py_handle *self);
