/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/array.h"

#include "client/python/src/dtype.h"

#include <dlpack/dlpack.h>

static void say_typestr(const struct amb_tensor *tensor, struct amb_py_array *out)
{
    static const char codes[] = {
        [kDLInt] = 'i', [kDLUInt] = 'u', [kDLFloat] = 'f', [kDLComplex] = 'c', [kDLBool] = 'b'};
    char code = tensor->code < sizeof(codes) ? codes[tensor->code] : '\0';
    if (out->format == NULL || code == '\0') {
        (void)PyOS_snprintf(out->typestr, sizeof(out->typestr), "|V%d", (int)out->itemsize);
        return;
    }
    const char *order = out->itemsize == 1 ? "|" : "<";
    (void)PyOS_snprintf(out->typestr, sizeof(out->typestr), "%s%c%d", order, code,
                        (int)out->itemsize);
}

/* One axis of an array that is not empty, the last one first. False: more than Python can say. The
 * elements of a peer's array may lie on each other, and be so many. */
static bool place(const struct amb_tensor *tensor, bool is_strided, uint32_t i,
                  struct amb_py_array *out)
{
    Py_ssize_t size = out->shape[i];
    out->strides[i] = out->len;
    if (is_strided && size > 1) { /* Of one element a stride leads nowhere. */
        if (__builtin_mul_overflow(tensor->strides[i], out->itemsize, &out->strides[i])) {
            return false;
        }
        out->first += out->strides[i] < 0 ? (size - 1) * -out->strides[i] : 0;
    }
    return !__builtin_mul_overflow(out->len, size, &out->len);
}

bool amb_py_array_of(const struct amb_tensor *tensor, struct amb_py_array *out)
{
    unsigned bits = (unsigned)tensor->bits * tensor->lanes;
    if (bits == 0 || bits % 8 != 0 || tensor->ndim > AMB_PY_DIMS) {
        return false;
    }
    bool is_strided = false, is_empty = false;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        is_strided = is_strided || tensor->strides[i] != 0;
        is_empty = is_empty || tensor->shape[i] == 0;
    }
    *out = (struct amb_py_array){.format = amb_py_format_of(tensor),
                                 .ndim = (int)tensor->ndim,
                                 .itemsize = (Py_ssize_t)(bits / 8),
                                 .len = is_empty ? 0 : (Py_ssize_t)(bits / 8)};
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        out->shape[i] = (Py_ssize_t)tensor->shape[i];
        if (is_empty) { /* No element is there to be found: sizes and strides may be any. */
            out->strides[i] = out->itemsize;
        } else if (!place(tensor, is_strided, i, out)) {
            return false;
        }
    }
    say_typestr(tensor, out);
    return true;
}

static bool is_in_order(const struct amb_py_array *array, bool is_fortran)
{
    Py_ssize_t stride = array->itemsize;
    for (int n = 0; n < array->ndim && array->len != 0; n++) {
        int i = is_fortran ? n : array->ndim - 1 - n;
        if (array->shape[i] != 1 && array->strides[i] != stride) {
            return false;
        }
        stride *= array->shape[i];
    }
    return true;
}

bool amb_py_array_is_c(const struct amb_py_array *array)
{
    return is_in_order(array, false);
}

bool amb_py_array_is_f(const struct amb_py_array *array)
{
    return is_in_order(array, true);
}

static bool has_order(const struct amb_py_array *array, int flags)
{
    bool wants_c = (flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
                   (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    bool wants_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    bool wants_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
    bool is_c = amb_py_array_is_c(array), is_f = amb_py_array_is_f(array);
    return (!wants_c || is_c) && (!wants_f || is_f) && (!wants_any || is_c || is_f);
}

int amb_py_array_view(struct amb_py_array *array, PyObject *owner, void *data, bool is_readonly,
                      Py_buffer *view, int flags)
{
    bool wants_shape = (flags & PyBUF_ND) == PyBUF_ND;
    if (wants_shape && !has_order(array, flags)) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the array is not in that order");
        return -1;
    }
    char *first = (char *)data + (wants_shape ? array->first : 0);
    if (PyBuffer_FillInfo(view, owner, first, array->len, is_readonly, flags) != 0) {
        return -1;
    }
    if (wants_shape) {
        bool has_dims = array->ndim != 0;
        view->ndim = array->ndim;
        view->itemsize = array->itemsize;
        view->shape = has_dims ? array->shape : NULL;
        view->strides =
            has_dims && (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? array->strides : NULL;
        view->format =
            (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)(uintptr_t)array->format : NULL;
    }
    return 0;
}

static PyObject *tuple_of(const Py_ssize_t *numbers, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; i++) {
        PyObject *number = PyLong_FromSsize_t(numbers[i]);
        if (number == NULL || PyTuple_SetItem(tuple, i, number) != 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

PyObject *amb_py_array_interface(const struct amb_py_array *array, const void *data,
                                 bool is_readonly)
{
    PyObject *shape = tuple_of(array->shape, array->ndim);
    PyObject *strides =
        amb_py_array_is_c(array) ? Py_NewRef(Py_None) : tuple_of(array->strides, array->ndim);
    PyObject *made = NULL;
    if (shape != NULL && strides != NULL) {
        const char *first = array->len != 0 ? (const char *)data + array->first : data;
        made = Py_BuildValue("{s:O,s:s,s:(NO),s:O,s:i}", "shape", shape, "typestr", array->typestr,
                             "data", PyLong_FromVoidPtr((void *)(uintptr_t)first),
                             is_readonly ? Py_True : Py_False, "strides", strides, "version", 3);
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return made;
}
