/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses as exceptions: one class each, below Error, and below the built-in one that fits.
 * Threads: with the GIL. Memory: the module's state holds the classes.
 */
#pragma once

#include "client/python/src/state.h"

/* Makes the classes and puts them into the module. -1: an exception is raised. */
int amb_py_errors_init(PyObject *module, struct amb_py_state *state);
/* Raises the class of the status, with that text or, where it is NULL or empty, the status's own.
 * Returns NULL. */
PyObject *amb_py_raise(const struct amb_py_state *state, enum amb_status status, const char *text);
/* The same with the connection's last error, where that is of the same status. */
PyObject *amb_py_raise_of(const struct amb_py_state *state, enum amb_status status,
                          const struct amb_conn *conn);
/* The raised exception, which is the caller's then and raised no more. There is one. */
PyObject *amb_py_take_raised(void);
