/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publisher: messages to one topic.
 */
#include "client/python/src/publisher.h"

#include "client/python/src/dtype.h"
#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/wait.h"

#include <string.h>

/* From here on a copy gives the GIL up. */
#define SLOW_BYTES 65536

static struct amb_pub *pub_of(struct amb_py_handle *self)
{
    return atomic_load_explicit(&self->handle, memory_order_acquire);
}

struct sending {
    struct amb_pub *pub;
    struct amb_out out;
    struct amb_tensor tensor;
};

static enum amb_status send_once(void *arg, int64_t timeout_ns)
{
    const struct sending *sending = arg;
    return sending->out.tensor != NULL
               ? amb_pub_copy(sending->pub, &sending->out, timeout_ns, NULL)
               : amb_pub_send(sending->pub, sending->out.data, sending->out.len, timeout_ns);
}

/* Bytes as they are, anything else with its shape. False: an exception is raised. */
static bool describe(const Py_buffer *view, struct sending *sending)
{
    sending->out = (struct amb_out)AMB_INIT(amb_out);
    sending->out.mem = AMB_MEM_HOST;
    sending->out.data = view->buf;
    sending->out.len = (size_t)view->len;
    if (view->ndim == 1 && view->itemsize == 1 &&
        (view->format == NULL || strcmp(view->format, "B") == 0)) {
        return true;
    }
    struct amb_tensor *tensor = &sending->tensor;
    if (view->ndim > 8 || !amb_py_dtype_of(view->format, (size_t)view->itemsize, tensor)) {
        PyErr_Format(PyExc_TypeError, "an array of '%s' in %d dimensions cannot be published",
                     view->format != NULL ? view->format : "B", view->ndim);
        return false;
    }
    tensor->ndim = (uint32_t)view->ndim;
    for (int i = 0; i < view->ndim; i++) {
        tensor->shape[i] = view->shape[i];
    }
    sending->out.tensor = tensor;
    return true;
}

static PyObject *send_view(struct amb_py_handle *self, const Py_buffer *view, int64_t timeout_ns)
{
    struct sending sending = {.pub = pub_of(self)};
    if (!describe(view, &sending)) {
        return NULL;
    }
    const struct amb_py_call call = {
        .run = send_once, .arg = &sending, .is_slow = view->len >= SLOW_BYTES};
    return amb_py_run(self, &call, timeout_ns) == AMB_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject *publisher_send(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "send(data, timeout=None)");
        return NULL;
    }
    int64_t timeout_ns = count == 2 ? amb_py_timeout(args[1]) : AMB_FOREVER;
    if (timeout_ns < 0) {
        return NULL;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_ND | PyBUF_FORMAT) != 0) {
        return NULL;
    }
    PyObject *result = send_view(amb_py_handle_of(object), &view, timeout_ns);
    PyBuffer_Release(&view);
    return result;
}

static enum amb_status flush_once(void *arg, int64_t timeout_ns)
{
    return amb_pub_flush(arg, 0, timeout_ns);
}

static PyObject *publisher_flush(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    const struct amb_py_call call = {.run = flush_once, .arg = pub_of(self)};
    int64_t timeout_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    if (timeout_ns < 0) {
        return NULL;
    }
    return amb_py_run(self, &call, timeout_ns) == AMB_OK ? Py_NewRef(Py_None) : NULL;
}

static enum amb_status end(void *pub, int64_t timeout_ns)
{
    return amb_pub_close(pub, timeout_ns);
}

static PyObject *publisher_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return amb_py_handle_close(amb_py_handle_of(object), end);
}

static void publisher_dealloc(PyObject *object)
{
    amb_py_handle_end(amb_py_handle_of(object), end, AMB_SEC); /* Sent messages shall leave. */
}

static PyMethodDef methods[] = {
    {"send", (PyCFunction)(void (*)(void))publisher_send, METH_FASTCALL,
     "send(data, timeout=None): publish a copy of the bytes, or of an array in C order."},
    {"flush", (PyCFunction)(void (*)(void))publisher_flush, METH_FASTCALL,
     "flush(timeout=None): wait until the broker has confirmed all."},
    {"close", publisher_close, METH_NOARGS,
     "close(): cancel what has not left, and end; flush comes before it."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject *amb_py_publisher_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)publisher_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
    PyType_Spec spec = {.name = "ambroker.Publisher",
                        .basicsize = sizeof(struct amb_py_handle),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
