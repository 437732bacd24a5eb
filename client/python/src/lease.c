/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/lease.h"

#include "client/python/src/array.h"
#include "client/python/src/capsule.h"
#include "client/python/src/dtype.h"
#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/publisher.h"
#include "client/python/src/source.h"

struct lease {
    PyObject_HEAD struct amb_py_state *state;
    struct amb_py_session *session;
    struct amb_lease *lease; /* NULL: committed or abandoned */
    struct amb_keep *keep;   /* of the views that are out */
    void *data;              /* of the host, or of a GPU */
    bool is_device;
    enum amb_mem mem;
    int32_t device;
    struct amb_tensor tensor;
    struct amb_py_array array;
};

static struct lease *self_of(PyObject *object)
{
    return (struct lease *)(void *)object;
}

/* ---- take ---- */

struct taking {
    struct amb_pub *pub;
    size_t len;
    struct amb_lease *lease;
};

static enum amb_status take_once(void *arg, int64_t timeout_ns)
{
    struct taking *taking = arg;
    return amb_lease(taking->pub, taking->len, timeout_ns, &taking->lease);
}

/* Code, bits and shape, which say how long it is. False: an exception is raised. */
static bool describe(PyObject *shape, int code, int bits, struct amb_tensor *tensor, size_t *len)
{
    Py_ssize_t dims = PySequence_Size(shape);
    if (dims < 0 || dims > AMB_PY_DIMS || code < 0 || code > 255 || bits < 8 || bits > 128 ||
        bits % 8 != 0) {
        PyErr_SetString(PyExc_ValueError, "a shape of up to 8 dimensions, and a type of elements");
        return false;
    }
    *tensor = (struct amb_tensor){
        .code = (uint8_t)code, .bits = (uint8_t)bits, .lanes = 1, .ndim = (uint32_t)dims};
    size_t whole = (size_t)bits / 8;
    for (Py_ssize_t i = 0; i < dims; i++) {
        PyObject *item = PySequence_GetItem(shape, i);
        Py_ssize_t size = item != NULL ? PyNumber_AsSsize_t(item, PyExc_ValueError) : -1;
        Py_XDECREF(item);
        if (size < 0 || (size != 0 && whole > (size_t)PY_SSIZE_T_MAX / (size_t)size)) {
            if (PyErr_Occurred() == NULL) {
                PyErr_SetString(PyExc_ValueError, "shape: no negative sizes, nor more than memory");
            }
            return false;
        }
        tensor->shape[i] = size;
        whole *= (size_t)size;
    }
    *len = whole;
    return true;
}

PyObject *amb_py_lease_take(PyObject *publisher, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"shape", "code", "bits", "timeout", "stream", NULL};
    struct amb_py_handle *pub = amb_py_handle_of(publisher);
    PyObject *shape, *timeout = Py_None, *stream = Py_None;
    int code, bits;
    void *handle;
    struct amb_tensor tensor;
    struct taking taking = {.lease = NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Oii|OO:lease", AMB_PY_NAMES(names), &shape,
                                     &code, &bits, &timeout, &stream)) {
        return NULL;
    }
    int64_t timeout_ns = amb_py_timeout(timeout);
    if (timeout_ns < 0 || !amb_py_stream(stream, &handle) ||
        !describe(shape, code, bits, &tensor, &taking.len)) {
        return NULL;
    }
    taking.pub = atomic_load_explicit(&pub->handle, memory_order_acquire);
    const struct amb_py_call call = {.run = take_once, .arg = &taking};
    if (amb_py_run(pub, &call, timeout_ns) != AMB_OK) {
        return NULL;
    }
    PyObject *object = PyType_GenericAlloc(pub->state->lease, 0);
    if (object == NULL) {
        amb_lease_abandon(taking.lease);
        return NULL;
    }
    struct lease *self = self_of(object);
    self->state = pub->state;
    self->session = amb_py_session_ref(pub->session);
    self->lease = taking.lease;
    self->data = amb_lease_data(taking.lease);
    self->is_device = self->data == NULL;
    if (self->is_device) {
        self->data = amb_lease_data_on(taking.lease, handle);
    }
    self->tensor = tensor;
    (void)amb_py_array_of(&tensor, &self->array);
    amb_py_publisher_lease_mem(publisher, &self->mem, &self->device);
    return object;
}

/* ---- its end ---- */

/* The memory stays while this object does. */
static bool keep(struct lease *self)
{
    enum amb_status status = self->keep == NULL ? amb_lease_keep(self->lease, &self->keep) : AMB_OK;
    return status == AMB_OK || amb_py_raise(self->state, status, NULL) != NULL;
}

static bool is_out(struct lease *self)
{
    if (self->lease == NULL) {
        (void)amb_py_raise(self->state, AMB_ESTATE, "the lease is committed or abandoned already");
    }
    return self->lease != NULL;
}

static PyObject *lease_commit(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct lease *self = self_of(object);
    PyObject *result = NULL;
    struct amb_py_source source;
    if (!PyArg_ParseTuple(args, ":commit") || !is_out(self) || !keep(self)) {
        return NULL;
    }
    /* Reading may run Python, which may commit it, too. */
    if (amb_py_source_read(&source, self->state, NULL, keywords, NULL) && is_out(self)) {
        uint64_t seq = 0;
        source.out.tensor = &self->tensor;
        struct amb_lease *lease = self->lease;
        self->lease = NULL;
        enum amb_status status = amb_lease_commit(lease, &source.out, &seq);
        if (status == AMB_ESTATE) { /* It stays ours: the stream captures a graph. */
            self->lease = lease;
        }
        result = status == AMB_OK ? PyLong_FromUnsignedLongLong(seq)
                                  : amb_py_raise(self->state, status, NULL);
    }
    amb_py_source_fini(&source);
    return result;
}

static PyObject *lease_abandon(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct lease *self = self_of(object);
    if (self->lease != NULL && keep(self)) {
        struct amb_lease *lease = self->lease;
        self->lease = NULL;
        amb_lease_abandon(lease);
    }
    return PyErr_Occurred() == NULL ? Py_NewRef(Py_None) : NULL;
}

static void lease_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    struct lease *self = self_of(object);
    if (self->lease != NULL) {
        amb_lease_abandon(self->lease);
    }
    if (self->keep != NULL) {
        amb_lease_unkeep(self->keep);
    }
    amb_py_session_drop(self->session);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- views ---- */

static int lease_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct lease *self = self_of(object);
    if (self->is_device || self->data == NULL) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the lease is not in memory that the CPU writes");
        return -1;
    }
    return amb_py_array_view(&self->array, object, self->data, self->lease == NULL, view, flags);
}

static PyObject *lease_interface(PyObject *object, void *closure)
{
    struct lease *self = self_of(object);
    if (self->is_device != (closure != NULL)) {
        PyErr_SetString(PyExc_AttributeError,
                        self->is_device ? "__array_interface__" : "__cuda_array_interface__");
        return NULL;
    }
    return amb_py_array_interface(&self->array, self->data, self->lease == NULL);
}

static PyObject *lease_nbytes(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(self_of(object)->array.len);
}

/* ---- DLPack ---- */

static struct amb_py_lent lent_of(struct lease *self)
{
    return (struct amb_py_lent){.owner = (PyObject *)(void *)self,
                                .data = self->data,
                                .tensor = &self->tensor,
                                .array = &self->array,
                                .mem = self->mem,
                                .device = self->device};
}

/* Work that the consumer puts on its stream comes behind that of whoever had the memory before. */
static PyObject *lease_dlpack(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct lease *self = self_of(object);
    const struct amb_py_lent lent = lent_of(self);
    void *stream;
    PyObject *capsule = amb_py_lent_dlpack(&lent, args, keywords, &stream);
    if (capsule == NULL) {
        return NULL;
    }
    if (self->lease == NULL) { /* Or no more: to read the arguments may run Python. */
        Py_DECREF(capsule);
        PyErr_SetString(PyExc_BufferError,
                        "the lease is committed or abandoned: nobody writes there any more");
        return NULL;
    }
    if (self->is_device) {
        (void)amb_lease_data_on(self->lease, stream);
    }
    return capsule;
}

static PyObject *lease_dlpack_device(PyObject *object, PyObject *Py_UNUSED(unused))
{
    const struct amb_py_lent lent = lent_of(self_of(object));
    return amb_py_lent_dlpack_device(&lent);
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))lease_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The memory as an array, to be written until the commit."},
    {"__dlpack_device__", lease_dlpack_device, METH_NOARGS, "Where it is."},
    {"commit", (PyCFunction)(void (*)(void))lease_commit, METH_VARARGS | METH_KEYWORDS,
     "commit(*, key=None, props=None, content_type=None, ttl=None, stream=None): publish it."},
    {"abandon", lease_abandon, METH_NOARGS, "abandon(): give it back unpublished."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"nbytes", lease_nbytes, NULL, "how many bytes it has", NULL},
    {"__array_interface__", lease_interface, NULL, "the array, for NumPy", NULL},
    {"__cuda_array_interface__", lease_interface, NULL, "the array, for libraries of CUDA",
     (void *)1},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject *amb_py_lease_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)lease_dealloc},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, getters},
                           {Py_bf_getbuffer, (void *)lease_getbuffer},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker._amb.Lease",
                        .basicsize = sizeof(struct lease),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
