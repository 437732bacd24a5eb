/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/capsule.h"

#include "client/python/src/array.h"
#include "client/python/src/errors.h"
#include "client/python/src/message.h"

#include <dlpack/dlpack.h>
#include <stdlib.h>

#define VERSIONED "dltensor_versioned"
#define UNVERSIONED "dltensor"

/* Of before version 1; the standard's layout. */
struct unversioned {
    DLTensor tensor;
    void *manager_ctx;
    void (*deleter)(struct unversioned *self);
};

struct unflagged {
    PyObject_HEAD PyObject *message;
};

static DLDevice device_in(enum amb_mem mem, int device)
{
    return (DLDevice){.device_type = mem == AMB_MEM_CUDA           ? kDLCUDA
                                     : mem == AMB_MEM_CUDA_MANAGED ? kDLCUDAManaged
                                     : mem == AMB_MEM_PINNED       ? kDLCUDAHost
                                                                   : kDLCPU,
                      .device_id = device >= 0 ? device : 0};
}

static DLDevice device_of(const struct amb_msg *msg)
{
    return device_in(amb_msg_mem(msg), amb_msg_device(msg));
}

/* ---- capsules ---- */

static void drop_versioned(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, VERSIONED)) { /* Nobody has taken it over. */
        struct DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, VERSIONED);
        managed->deleter(managed);
    }
}

static void drop_unversioned(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, UNVERSIONED)) {
        struct unversioned *managed = PyCapsule_GetPointer(capsule, UNVERSIONED);
        managed->deleter(managed);
    }
}

static void delete_unversioned(struct unversioned *self)
{
    struct DLManagedTensorVersioned *managed = self->manager_ctx;
    managed->deleter(managed);
    free(self);
}

/* Takes the array. */
static PyObject *wrap_unversioned(struct DLManagedTensorVersioned *managed)
{
    struct unversioned *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        managed->deleter(managed);
        return PyErr_NoMemory();
    }
    made->tensor = managed->dl_tensor;
    made->manager_ctx = managed;
    made->deleter = delete_unversioned;
    PyObject *capsule = PyCapsule_New(made, UNVERSIONED, drop_unversioned);
    if (capsule == NULL) {
        delete_unversioned(made);
    }
    return capsule;
}

/* Takes the array. */
static PyObject *wrap(struct DLManagedTensorVersioned *managed, bool has_version)
{
    if (!has_version) {
        return wrap_unversioned(managed);
    }
    PyObject *capsule = PyCapsule_New(managed, VERSIONED, drop_versioned);
    if (capsule == NULL) {
        managed->deleter(managed);
    }
    return capsule;
}

/* ---- what is asked for ---- */

struct wish {
    PyObject *stream, *max_version, *dl_device, *copy;
};

static bool parse_wish(PyObject *args, PyObject *keywords, struct wish *out)
{
    static const char *const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    *out = (struct wish){Py_None, Py_None, Py_None, Py_None};
    return PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", AMB_PY_NAMES(names),
                                       &out->stream, &out->max_version, &out->dl_device,
                                       &out->copy) != 0;
}

/* None: it knows no versions. */
static bool is_versioned(PyObject *max_version, bool *out)
{
    *out = false;
    if (max_version == Py_None) {
        return true;
    }
    PyObject *major = PySequence_GetItem(max_version, 0);
    *out = major != NULL && PyLong_AsLong(major) >= 1;
    Py_XDECREF(major);
    return PyErr_Occurred() == NULL;
}

static bool is_here(PyObject *dl_device, DLDevice device)
{
    if (dl_device == Py_None) {
        return true;
    }
    int type, number;
    if (!PyArg_Parse(dl_device, "(ii)", &type, &number)) {
        return false;
    }
    bool is_same = type == (int)device.device_type && number == device.device_id;
    if (!is_same) {
        PyErr_Format(PyExc_BufferError, "the memory is on device (%d, %d): it is not moved",
                     (int)device.device_type, (int)device.device_id);
    }
    return is_same;
}

/* -1: no order is wanted; 0 may be said by nobody. */
static bool read_stream(PyObject *wanted, void *own, void **out)
{
    *out = own;
    if (wanted == Py_None) {
        return true;
    }
    long long stream = PyLong_AsLongLong(wanted);
    if (PyErr_Occurred() == NULL && (stream == 0 || stream < -1)) {
        PyErr_SetString(PyExc_ValueError, "stream: None, -1, or a stream of CUDA's from 1 on");
    }
    if (PyErr_Occurred() != NULL) {
        return false;
    }
    *out = stream == -1 ? own : (void *)(uintptr_t)stream;
    return true;
}

static bool is_in_place(PyObject *copy)
{
    int wants_copy = copy != Py_None ? PyObject_IsTrue(copy) : 0;
    if (wants_copy > 0) {
        PyErr_SetString(PyExc_BufferError, "nothing is copied here: copy the array");
    }
    return wants_copy == 0;
}

/* The wish for memory on a device, whose stream is `own`. False: an exception is raised. */
static bool read_wish(const struct wish *wish, DLDevice device, void *own, bool *has_version,
                      void **stream)
{
    return is_versioned(wish->max_version, has_version) && is_here(wish->dl_device, device) &&
           read_stream(wish->stream, own, stream) && is_in_place(wish->copy);
}

static PyObject *export(PyObject *message, const struct wish *wish, bool is_flagged)
{
    struct amb_py_message *self = amb_py_message_of(message);
    struct amb_msg *msg = amb_py_message_get(message);
    bool has_version;
    void *stream;
    if (msg == NULL || !read_wish(wish, device_of(msg), self->stream, &has_version, &stream)) {
        return NULL;
    }
    msg = amb_py_message_get(message); /* To read a wish may run Python, which may release it. */
    if (msg == NULL) {
        return NULL;
    }
    if (!has_version && is_flagged) {
        PyErr_SetString(PyExc_BufferError,
                        "the message is read-only, which DLPack says from version 1 on alone: "
                        "pass msg.unflagged, and do not write");
        return NULL;
    }
    struct DLManagedTensorVersioned *managed;
    enum amb_status status = amb_msg_dlpack(msg, stream, &managed);
    if (status != AMB_OK) {
        PyErr_SetString(PyExc_BufferError, amb_strerror(status));
        return NULL;
    }
    if (!is_flagged) {
        managed->flags &= ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    return wrap(managed, has_version);
}

PyObject *amb_py_message_dlpack(PyObject *message, PyObject *args, PyObject *keywords)
{
    struct wish wish;
    return parse_wish(args, keywords, &wish) ? export(message, &wish, true) : NULL;
}

PyObject *amb_py_message_dlpack_device(PyObject *message, PyObject *unused)
{
    (void)unused;
    const struct amb_msg *msg = amb_py_message_get(message);
    if (msg == NULL) {
        return NULL;
    }
    DLDevice device = device_of(msg);
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

/* ---- memory that is lent to be written ---- */

struct lent_array {
    struct DLManagedTensorVersioned managed;
    PyObject *owner;
    int64_t shape[AMB_PY_DIMS], strides[AMB_PY_DIMS];
};

/* By a consumer's thread, with the GIL or without. After the end of Python nobody needs it. */
static void delete_lent(struct DLManagedTensorVersioned *managed)
{
    struct lent_array *self = managed->manager_ctx;
    if (Py_IsInitialized() != 0) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(self->owner);
        PyGILState_Release(state);
    }
    free(self);
}

static struct lent_array *lent_new(const struct amb_py_lent *lent)
{
    struct lent_array *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    const struct amb_tensor *tensor = lent->tensor;
    const struct amb_py_array *array = lent->array;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        made->shape[i] = array->shape[i];
        made->strides[i] = array->strides[i] / array->itemsize; /* DLPack counts elements. */
    }
    made->owner = Py_NewRef(lent->owner);
    made->managed = (struct DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .manager_ctx = made,
        .deleter = delete_lent,
        .dl_tensor = {.data = lent->data,
                      .device = device_in(lent->mem, lent->device),
                      .ndim = (int32_t)tensor->ndim,
                      .dtype = {.code = tensor->code, .bits = tensor->bits, .lanes = tensor->lanes},
                      .shape = made->shape,
                      .strides = made->strides}};
    return made;
}

PyObject *amb_py_lent_dlpack(const struct amb_py_lent *lent, PyObject *args, PyObject *keywords,
                             void **stream)
{
    struct wish wish;
    bool has_version;
    if (!parse_wish(args, keywords, &wish) ||
        !read_wish(&wish, device_in(lent->mem, lent->device), NULL, &has_version, stream)) {
        return NULL;
    }
    struct lent_array *made = lent_new(lent);
    return made != NULL ? wrap(&made->managed, has_version) : NULL;
}

PyObject *amb_py_lent_dlpack_device(const struct amb_py_lent *lent)
{
    DLDevice device = device_in(lent->mem, lent->device);
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

/* ---- without the flag ---- */

static PyObject *message_of(PyObject *unflagged)
{
    return ((struct unflagged *)(void *)unflagged)->message;
}

static PyObject *unflagged_dlpack(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct wish wish;
    return parse_wish(args, keywords, &wish) ? export(message_of(object), &wish, false) : NULL;
}

static PyObject *unflagged_device(PyObject *object, PyObject *unused)
{
    return amb_py_message_dlpack_device(message_of(object), unused);
}

PyObject *amb_py_message_unflagged(PyObject *message, void *closure)
{
    (void)closure;
    PyObject *made = PyType_GenericAlloc(amb_py_message_of(message)->state->unflagged, 0);
    if (made != NULL) {
        ((struct unflagged *)(void *)made)->message = Py_NewRef(message);
    }
    return made;
}

static void unflagged_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(((struct unflagged *)(void *)object)->message);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyTypeObject *amb_py_unflagged_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"__dlpack__", (PyCFunction)(void (*)(void))unflagged_dlpack, METH_VARARGS | METH_KEYWORDS,
         "The payload as an array, in place."},
        {"__dlpack_device__", unflagged_device, METH_NOARGS, "Where it is."},
        {NULL, NULL, 0, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)unflagged_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
    PyType_Spec spec = {.name = "ambroker._amb.Unflagged",
                        .basicsize = sizeof(struct unflagged),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
