/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the topics of a pattern.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* GPU messages of it are for work on that stream. */
void amb_py_subscription_set_stream(PyObject *object, void *stream);
/* amb_sub_close, as an amb_py_handle_fn. */
enum amb_status amb_py_subscription_end(void *sub, int64_t timeout_ns);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_subscription_type(PyObject *module);
