/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection, and the function that opens it.
 * Threads: with the GIL, which is given up meanwhile. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* connect(url=None, *, ...) of the module. */
PyObject *amb_py_connect(PyObject *module, PyObject *args, PyObject *keywords);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_connection_type(PyObject *module);
