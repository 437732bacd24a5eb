/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A received message.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* Takes the message. NULL: an exception is raised, and the message released. */
PyObject *amb_py_message_new(struct amb_py_state *state, struct amb_msg *msg);

/* NULL: an exception is raised. */
PyTypeObject *amb_py_message_type(PyObject *module);
