/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays in bytes: shape and strides of a tensor, as Python's protocols want them.
 * Threads: with the GIL. Memory: the caller's.
 */
#pragma once

#include "client/python/src/state.h"

#define AMB_PY_DIMS 8

struct amb_py_array {
    const char *format; /* a code of struct; NULL: the elements have none */
    char typestr[8];    /* as NumPy says it: "<f4"; "|V2" for those without a code */
    int ndim;
    Py_ssize_t itemsize, len, first; /* bytes; first: of the element whose indices are all 0 */
    Py_ssize_t shape[AMB_PY_DIMS], strides[AMB_PY_DIMS];
};

/* False: elements of no whole bytes, or more of them than Python can say. */
bool amb_py_array_of(const struct amb_tensor *tensor, struct amb_py_array *out);
bool amb_py_array_is_c(const struct amb_py_array *array);
bool amb_py_array_is_f(const struct amb_py_array *array);
/* Fills in a view whose bytes are at `data`, as the flags ask for it. -1: BufferError is raised. */
int amb_py_array_view(struct amb_py_array *array, PyObject *owner, void *data, bool is_readonly,
                      Py_buffer *view, int flags);
/* The dict of NumPy's and of CUDA's array interface, without data. NULL: an exception is raised. */
PyObject *amb_py_array_interface(const struct amb_py_array *array, const void *data,
                                 bool is_readonly);
