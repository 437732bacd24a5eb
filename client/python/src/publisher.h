/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to one topic.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* NULL: an exception is raised. */
PyTypeObject *amb_py_publisher_type(PyObject *module);
