/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs of a message: acknowledgements, reading, answers.
 * Threads: with the GIL, which calls that wait give up. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

PyObject *amb_py_message_ack(PyObject *message, PyObject *unused);
PyObject *amb_py_message_nak(PyObject *message, PyObject *const *args, Py_ssize_t count);
PyObject *amb_py_message_in_progress(PyObject *message, PyObject *unused);
PyObject *amb_py_message_term(PyObject *message, PyObject *const *args, Py_ssize_t count);
PyObject *amb_py_message_fetch(PyObject *message, PyObject *const *args, Py_ssize_t count);
PyObject *amb_py_message_read(PyObject *message, PyObject *args, PyObject *keywords);
PyObject *amb_py_message_reply(PyObject *message, PyObject *args, PyObject *keywords);
