/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request under way.
 * Threads: with the GIL. Memory: Python's, and a share with libamb's callback.
 */
#pragma once

#include "client/python/src/state.h"

/* request_post(topic, data, timeout, *, key, props, ...) of a Connection: a Pending. */
PyObject *amb_py_request_post(PyObject *connection, PyObject *args, PyObject *keywords);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_pending_type(PyObject *module);
