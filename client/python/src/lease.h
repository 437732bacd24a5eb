/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for one message, written in place. Its views stay valid after the commit and after every
 * close: a late write changes the message, or raises, and never crashes.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* lease() of a Publisher. */
PyObject *amb_py_lease_take(PyObject *publisher, PyObject *args, PyObject *keywords);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_lease_type(PyObject *module);
