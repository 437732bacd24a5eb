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
    const struct amb_tensor *tensor;
    const struct amb_py_array *array; /* of the tensor */
    enum amb_mem mem;
    int32_t device;
};
/* __dlpack__ of it, without the flag, for it is written. `stream`: the one that the arguments name,
 * else NULL, for the caller to heed. */
PyObject *amb_py_lent_dlpack(const struct amb_py_lent *lent, PyObject *args, PyObject *keywords,
                             void **stream);
PyObject *amb_py_lent_dlpack_device(const struct amb_py_lent *lent);
/* The getter of `unflagged`. */
PyObject *amb_py_message_unflagged(PyObject *message, void *closure);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_unflagged_type(PyObject *module);
