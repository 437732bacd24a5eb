/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages by DLPack.
 * Threads: with the GIL; a consumer's thread gives an array back without it. Memory: a capsule and
 * its consumer hold the message itself, not the object; of a lease they hold the object.
 */
#pragma once

#include "client/python/src/state.h"

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) */
PyObject *amb_py_message_dlpack(PyObject *message, PyObject *args, PyObject *keywords);
PyObject *amb_py_message_dlpack_device(PyObject *message, PyObject *unused);
/* Memory of one array that its user writes. */
struct amb_py_lent {
    PyObject *owner; /* held while a consumer has the array */
    void *data;
    const struct amb_tensor *tensor; /* in C order */
    enum amb_mem mem;
    int32_t device;
};
/* __dlpack__ of it, where `stream` is for the caller to heed: without the flag, for it is written.
 */
PyObject *amb_py_lent_dlpack(const struct amb_py_lent *lent, PyObject *args, PyObject *keywords);
PyObject *amb_py_lent_dlpack_device(const struct amb_py_lent *lent);
/* The stream that arguments of __dlpack__ name, else `own`. False: an exception is raised. */
bool amb_py_dlpack_stream(PyObject *args, PyObject *keywords, void *own, void **out);
/* The getter of `unflagged`. */
PyObject *amb_py_message_unflagged(PyObject *message, void *closure);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_unflagged_type(PyObject *module);
