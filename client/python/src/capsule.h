/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages by DLPack.
 * Threads: with the GIL; a consumer's thread gives an array back without it. Memory: a capsule and
 * its consumer hold the message itself, not the object.
 */
#pragma once

#include "client/python/src/state.h"

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) */
PyObject *amb_py_message_dlpack(PyObject *message, PyObject *args, PyObject *keywords);
PyObject *amb_py_message_dlpack_device(PyObject *message, PyObject *unused);
/* The getter of `unflagged`. */
PyObject *amb_py_message_unflagged(PyObject *message, void *closure);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_unflagged_type(PyObject *module);
