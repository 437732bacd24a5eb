/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message: a received payload, read where it lies through the buffer protocol, always read-only.
 * Views hold the message. It stays valid after every close.
 */
#include "client/python/src/message.h"

#include "client/python/src/dtype.h"
#include "client/python/src/errors.h"
#include "client/python/src/state.h"

#include <string.h>

struct message {
    PyObject_HEAD struct amb_py_state *state;
    struct amb_msg *msg; /* NULL: released */
    Py_ssize_t views;
    const char *format; /* NULL: bytes, or no view has asked for a shape */
    int ndim;
    Py_ssize_t itemsize, shape[8], strides[8];
};

static struct message *self_of(PyObject *object)
{
    return (struct message *)(void *)object;
}

/* NULL: an exception is raised, for it has been released. */
static struct amb_msg *msg_of(PyObject *object)
{
    struct message *self = self_of(object);
    if (self->msg == NULL) {
        PyErr_SetString(PyExc_ValueError, "the message has been released");
    }
    return self->msg;
}

/* NULL: an exception is raised. */
static const void *data_of(PyObject *object)
{
    struct amb_msg *msg = msg_of(object);
    const void *data = msg != NULL ? amb_msg_data(msg) : NULL;
    if (msg != NULL && data == NULL) {
        PyErr_SetString(PyExc_BufferError, "the payload is not in memory that the CPU reads");
    }
    return data;
}

/* The array that it is, where a view can say that: the payload begins with its first element. */
static void describe(struct message *self)
{
    const struct amb_tensor *tensor = amb_msg_tensor(self->msg);
    const char *format = tensor != NULL ? amb_py_format_of(tensor) : NULL;
    bool is_strided = false;
    for (uint32_t i = 0; format != NULL && i < tensor->ndim; i++) {
        is_strided = is_strided || tensor->strides[i] != 0;
        if (tensor->strides[i] < 0) {
            return;
        }
    }
    if (format == NULL) {
        return;
    }
    self->format = format;
    self->itemsize = tensor->bits / 8;
    self->ndim = (int)tensor->ndim;
    Py_ssize_t stride = self->itemsize;
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        self->shape[i] = (Py_ssize_t)tensor->shape[i];
        self->strides[i] = is_strided ? (Py_ssize_t)tensor->strides[i] * self->itemsize : stride;
        stride *= self->shape[i] != 0 ? self->shape[i] : 1;
    }
}

PyObject *amb_py_message_new(struct amb_py_state *state, struct amb_msg *msg)
{
    PyObject *object = PyType_GenericAlloc(state->message, 0);
    if (object == NULL) {
        amb_msg_release(msg);
        return NULL;
    }
    self_of(object)->state = state;
    self_of(object)->msg = msg;
    return object;
}

static void message_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    amb_msg_release(self_of(object)->msg);
    PyObject_Free(object);
    Py_DECREF(type);
}

static bool is_c_order(const struct message *self)
{
    Py_ssize_t stride = self->itemsize;
    for (int i = self->ndim; i-- > 0;) {
        if (self->shape[i] != 1 && self->strides[i] != stride) {
            return false;
        }
        stride *= self->shape[i];
    }
    return true;
}

static int message_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct message *self = self_of(object);
    const void *data = data_of(object);
    view->obj = NULL;
    if (data == NULL || PyBuffer_FillInfo(view, object, (void *)(uintptr_t)data,
                                          (Py_ssize_t)amb_msg_size(self->msg), 1, flags) != 0) {
        return -1; /* It wants to write, for one. */
    }
    bool wants_shape = (flags & PyBUF_ND) == PyBUF_ND;
    if (wants_shape && self->format == NULL) {
        describe(self);
    }
    if (wants_shape && self->format != NULL) {
        bool wants_c = (flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
                       (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
        if (wants_c && !is_c_order(self)) {
            PyBuffer_Release(view);
            PyErr_SetString(PyExc_BufferError, "the array is not in C order");
            return -1;
        }
        view->len = self->itemsize;
        for (int i = 0; i < self->ndim; i++) {
            view->len *= self->shape[i];
        }
        view->ndim = self->ndim;
        view->itemsize = self->itemsize;
        view->shape = self->ndim != 0 ? self->shape : NULL;
        view->strides =
            (flags & PyBUF_STRIDES) == PyBUF_STRIDES && self->ndim != 0 ? self->strides : NULL;
        view->format =
            (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)(uintptr_t)self->format : NULL;
    }
    self->views++;
    return 0;
}

static void message_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    self_of(object)->views--;
}

static Py_ssize_t message_length(PyObject *object)
{
    struct amb_msg *msg = msg_of(object);
    return msg != NULL ? (Py_ssize_t)amb_msg_size(msg) : -1;
}

static PyObject *message_release(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct message *self = self_of(object);
    if (self->views > 0) {
        PyErr_SetString(PyExc_BufferError, "views of the message are out");
        return NULL;
    }
    struct amb_msg *msg = self->msg;
    self->msg = NULL;
    amb_msg_release(msg);
    return Py_NewRef(Py_None);
}

static PyObject *message_tobytes(PyObject *object, PyObject *Py_UNUSED(unused))
{
    const void *data = data_of(object);
    return data != NULL
               ? PyBytes_FromStringAndSize(data, (Py_ssize_t)amb_msg_size(self_of(object)->msg))
               : NULL;
}

static PyObject *message_ack(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_msg *msg = msg_of(object);
    enum amb_status status = msg != NULL ? amb_msg_ack(msg) : AMB_OK;
    if (status != AMB_OK) {
        return amb_py_raise(self_of(object)->state, status, NULL);
    }
    return msg != NULL ? Py_NewRef(Py_None) : NULL;
}

enum getter {
    TOPIC,
    KEY,
    CONTENT_TYPE,
    PATH,
    SEQ,
    TIME_NS,
    DELIVERIES,
    LOST,
    WANTS_REPLY
};

static PyObject *text_of(const char *text)
{
    return text != NULL ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape")
                        : Py_NewRef(Py_None);
}

static PyObject *message_get(PyObject *object, void *closure)
{
    struct amb_msg *msg = msg_of(object);
    if (msg == NULL) {
        return NULL;
    }
    switch ((enum getter)(uintptr_t)closure) {
    case TOPIC:
        return text_of(amb_msg_topic(msg));
    case KEY:
        return text_of(amb_msg_key(msg));
    case CONTENT_TYPE:
        return text_of(amb_msg_content_type(msg));
    case PATH:
        return text_of(amb_msg_path(msg));
    case SEQ:
        return PyLong_FromUnsignedLongLong(amb_msg_seq(msg));
    case TIME_NS:
        return PyLong_FromLongLong(amb_msg_time(msg));
    case DELIVERIES:
        return PyLong_FromUnsignedLong(amb_msg_deliveries(msg));
    case LOST:
        return PyLong_FromUnsignedLongLong(amb_msg_lost(msg, NULL));
    case WANTS_REPLY:
        return PyBool_FromLong(amb_msg_wants_reply(msg));
    }
    return NULL;
}

static PyObject *message_props(PyObject *object, void *closure)
{
    (void)closure;
    struct amb_msg *msg = msg_of(object);
    PyObject *props = msg != NULL ? PyDict_New() : NULL;
    struct amb_prop prop;
    for (size_t i = 0; props != NULL && amb_msg_prop_at(msg, i, &prop) == AMB_OK; i++) {
        PyObject *value = PyBytes_FromStringAndSize(prop.value, (Py_ssize_t)prop.len);
        if (value == NULL || PyDict_SetItemString(props, prop.name, value) != 0) {
            Py_CLEAR(props);
        }
        Py_XDECREF(value);
    }
    return props;
}

static PyMethodDef methods[] = {
    {"release", message_release, METH_NOARGS,
     "release(): give the memory back; BufferError while views of it are out."},
    {"tobytes", message_tobytes, METH_NOARGS, "tobytes(): a copy of the payload."},
    {"ack", message_ack, METH_NOARGS, "ack(): it is done with."},
    {NULL, NULL, 0, NULL},
};

#define GETTER(name, which, doc)                                                                   \
    {                                                                                              \
        name, message_get, NULL, doc, (void *)(uintptr_t)(which)                                   \
    }
static PyGetSetDef getters[] = {
    GETTER("topic", TOPIC, "its topic"),
    GETTER("key", KEY, "its key, or None"),
    GETTER("content_type", CONTENT_TYPE, "its content type, or None"),
    GETTER("path", PATH, "how it came: mapped, ring, tcp, ..."),
    GETTER("seq", SEQ, "its number in its topic"),
    GETTER("time_ns", TIME_NS, "when the broker took it, ns since 1970"),
    GETTER("deliveries", DELIVERIES, "how often it has been delivered, this time included"),
    GETTER("lost", LOST, "messages lost just before this one"),
    GETTER("wants_reply", WANTS_REPLY, "is it a request?"),
    {"props", message_props, NULL, "its properties: a dict of bytes", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject *amb_py_message_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)message_dealloc},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, getters},
                           {Py_sq_length, (void *)message_length},
                           {Py_bf_getbuffer, (void *)message_getbuffer},
                           {Py_bf_releasebuffer, (void *)message_releasebuffer},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker.Message",
                        .basicsize = sizeof(struct message),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
