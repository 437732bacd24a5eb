/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the topics of a pattern.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* NULL: an exception is raised. */
PyTypeObject *amb_py_subscription_type(PyObject *module);
