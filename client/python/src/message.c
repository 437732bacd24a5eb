/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message: a received payload, read where it lies through the buffer protocol, always read-only.
 * Views hold the message. It stays valid after every close.
 */
#include "client/python/src/message.h"

#include "client/python/src/capsule.h"
#include "client/python/src/errors.h"
#include "client/python/src/message_acts.h"
#include "client/python/src/message_fields.h"
#include "client/python/src/wait.h"

struct amb_msg *amb_py_message_get(PyObject *object)
{
    struct amb_py_message *self = amb_py_message_of(object);
    if (self->msg == NULL) {
        PyErr_SetString(PyExc_ValueError, "the message has been released");
    }
    return self->msg;
}

PyObject *amb_py_message_new(struct amb_py_state *state, struct amb_msg *msg, void *stream)
{
    PyObject *object = PyType_GenericAlloc(state->message, 0);
    if (object == NULL) {
        amb_msg_release(msg);
        return NULL;
    }
    struct amb_py_message *self = amb_py_message_of(object);
    self->state = state;
    self->msg = msg;
    self->stream = stream;
    return object;
}

void amb_py_message_trust(PyObject *message)
{
    amb_py_message_of(message)->is_trusted = true;
}

/* GPU memory goes back when the work on its stream has run; that may be waited for. */
static void give_back(struct amb_py_message *self)
{
    struct amb_msg *msg = self->msg;
    self->msg = NULL;
    if (msg == NULL || amb_msg_mem(msg) == AMB_MEM_HOST) {
        amb_msg_release(msg);
        return;
    }
    PyThreadState *thread = PyEval_SaveThread(); /* No signal may raise here. */
    if (amb_msg_release_on(msg, self->stream) != AMB_OK) {
        amb_msg_release(msg); /* The stream captures a graph. */
    }
    PyEval_RestoreThread(thread);
}

static void message_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    give_back(amb_py_message_of(object));
    PyObject_Free(object);
    Py_DECREF(type);
}

/* Its array, or its bytes. NULL: an exception is raised. */
static struct amb_py_array *array_of(PyObject *object)
{
    struct amb_py_message *self = amb_py_message_of(object);
    struct amb_msg *msg = amb_py_message_get(object);
    if (msg != NULL && !self->is_described) {
        const struct amb_tensor *tensor = amb_msg_tensor(msg);
        const struct amb_tensor bytes = {
            .code = 1, .bits = 8, .lanes = 1, .ndim = 1, .shape = {(int64_t)amb_msg_size(msg)}};
        if (tensor == NULL || !amb_py_array_of(tensor, &self->array)) {
            (void)amb_py_array_of(&bytes, &self->array);
        }
        self->is_described = true;
    }
    return msg != NULL ? &self->array : NULL;
}

/* NULL: an exception is raised. */
static void *data_of(PyObject *object)
{
    static char nothing[1];
    struct amb_msg *msg = amb_py_message_get(object);
    const void *data = msg != NULL ? amb_msg_data(msg) : NULL;
    if (msg != NULL && data == NULL && amb_msg_size(msg) == 0) {
        data = nothing;
    }
    if (msg != NULL && data == NULL) {
        PyErr_SetString(PyExc_BufferError, "the payload is not in memory that the CPU reads: it is "
                                           "a GPU's, or lazy and not fetched");
    }
    return (void *)(uintptr_t)data;
}

/* A payload that is no array, or whose elements have no code of struct, is seen as bytes. */
static int message_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct amb_py_message *self = amb_py_message_of(object);
    void *data = data_of(object);
    view->obj = NULL;
    if (data == NULL) {
        return -1;
    }
    struct amb_py_array *array = array_of(object);
    bool is_flat = array->format == NULL || (flags & PyBUF_ND) != PyBUF_ND;
    int result = is_flat ? PyBuffer_FillInfo(view, object, data,
                                             (Py_ssize_t)amb_msg_size(self->msg), 1, flags)
                         : amb_py_array_view(array, object, data, true, view, flags);
    self->views += result == 0;
    return result;
}

static void message_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    amb_py_message_of(object)->views--;
}

static Py_ssize_t message_length(PyObject *object)
{
    struct amb_msg *msg = amb_py_message_get(object);
    return msg != NULL ? (Py_ssize_t)amb_msg_size(msg) : -1;
}

static PyObject *message_release(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_message *self = amb_py_message_of(object);
    if (self->views > 0) {
        PyErr_SetString(PyExc_BufferError, "views of the message are out");
        return NULL;
    }
    give_back(self);
    return Py_NewRef(Py_None);
}

/* From here on it is a copy, which holds neither its neighbours nor credit. */
static PyObject *message_detach(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_message *self = amb_py_message_of(object);
    struct amb_msg *msg = amb_py_message_get(object), *copy;
    if (msg == NULL) {
        return NULL;
    }
    if (self->views > 0) {
        PyErr_SetString(PyExc_BufferError, "views of the message are out");
        return NULL;
    }
    enum amb_status status = amb_msg_copy(msg, &copy);
    if (status != AMB_OK) {
        return amb_py_raise(self->state, status,
                            status == AMB_ESTATE ? "the payload is a GPU's, or lazy and not fetched"
                                                 : NULL);
    }
    give_back(self);
    self->msg = copy;
    return Py_NewRef(object);
}

static PyObject *message_tobytes(PyObject *object, PyObject *Py_UNUSED(unused))
{
    const void *data = data_of(object);
    return data != NULL ? PyBytes_FromStringAndSize(
                              data, (Py_ssize_t)amb_msg_size(amb_py_message_of(object)->msg))
                        : NULL;
}

/* A function of a module of the package, with the message. */
static PyObject *call_package(const char *name, const char *function, PyObject *object)
{
    PyObject *module = PyImport_ImportModule(name);
    PyObject *result = module != NULL ? PyObject_CallMethod(module, function, "O", object) : NULL;
    Py_XDECREF(module);
    return result;
}

static PyObject *message_object(PyObject *object, PyObject *Py_UNUSED(unused))
{
    const struct amb_py_message *self = amb_py_message_of(object);
    if (!self->is_trusted) {
        return amb_py_raise(self->state, AMB_EFORBIDDEN,
                            "to load a pickle is to run its writer's code: subscribe with "
                            "trust_pickle=True where the writers may");
    }
    return call_package("ambroker._objects", "load", object);
}

static PyObject *message_array(PyObject *object, void *closure)
{
    (void)closure;
    return call_package("ambroker._arrays", "of", object);
}

/* ---- the flat bytes ---- */

struct flat {
    PyObject_HEAD PyObject *message;
};

static int flat_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct amb_py_message *message = amb_py_message_of(((struct flat *)(void *)object)->message);
    void *data = data_of((PyObject *)(void *)message);
    view->obj = NULL;
    int result = data != NULL ? PyBuffer_FillInfo(view, object, data,
                                                  (Py_ssize_t)amb_msg_size(message->msg), 1, flags)
                              : -1;
    message->views += result == 0;
    return result;
}

static void flat_releasebuffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    amb_py_message_of(((struct flat *)(void *)object)->message)->views--;
}

static void flat_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(((struct flat *)(void *)object)->message);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *message_data(PyObject *object, void *closure)
{
    (void)closure;
    PyObject *flat = PyType_GenericAlloc(amb_py_message_of(object)->state->bytes, 0);
    if (flat == NULL) {
        return NULL;
    }
    ((struct flat *)(void *)flat)->message = Py_NewRef(object);
    PyObject *view = PyMemoryView_FromObject(flat);
    Py_DECREF(flat);
    return view;
}

PyTypeObject *amb_py_bytes_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)flat_dealloc},
                           {Py_bf_getbuffer, (void *)flat_getbuffer},
                           {Py_bf_releasebuffer, (void *)flat_releasebuffer},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker._amb.Bytes",
                        .basicsize = sizeof(struct flat),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

/* ---- arrays ---- */

/* closure: of CUDA's. The host's memory has no such interface, and the other way round. */
static PyObject *message_interface(PyObject *object, void *closure)
{
    struct amb_py_array *array = array_of(object);
    if (array == NULL) {
        return NULL;
    }
    struct amb_py_message *self = amb_py_message_of(object);
    enum amb_mem mem = amb_msg_mem(self->msg);
    bool is_device = mem == AMB_MEM_CUDA || mem == AMB_MEM_CUDA_MANAGED;
    if (is_device != (closure != NULL)) {
        PyErr_SetString(PyExc_AttributeError,
                        closure != NULL ? "__cuda_array_interface__" : "__array_interface__");
        return NULL;
    }
    const void *data = NULL; /* CUDA's is 0 where there are no elements, NumPy's must not be. */
    if (!is_device) {
        data = data_of(object);
    } else if (array->len != 0) {
        data = amb_msg_data_on(self->msg, self->stream);
    }
    if (data == NULL && PyErr_Occurred() != NULL) {
        return NULL;
    }
    PyObject *dict = amb_py_array_interface(array, data, true);
    if (dict != NULL && is_device) { /* Work that reads it comes behind this stream's. */
        uintptr_t number = (uintptr_t)self->stream;
        PyObject *stream = PyLong_FromSize_t(number != 0 ? number : 1);
        if (stream == NULL || PyDict_SetItemString(dict, "stream", stream) != 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(stream);
    }
    return dict;
}

static PyMethodDef methods[] = {
    {"release", message_release, METH_NOARGS,
     "release(): give the memory back; BufferError while views of it are out."},
    {"detach", message_detach, METH_NOARGS,
     "detach(): itself, now a copy that holds neither its batch nor credit; acknowledge it "
     "before."},
    {"tobytes", message_tobytes, METH_NOARGS, "tobytes(): a copy of the payload."},
    {"object", message_object, METH_NOARGS,
     "object(): the object that was published; refused unless the subscription trusts pickles."},
    {"ack", amb_py_message_ack, METH_NOARGS, "ack(): it is done with."},
    {"nak", (PyCFunction)(void (*)(void))amb_py_message_nak, METH_FASTCALL,
     "nak(delay=0): it shall come again, after so many seconds."},
    {"in_progress", amb_py_message_in_progress, METH_NOARGS,
     "in_progress(): still at it, so ack_wait begins anew."},
    {"term", (PyCFunction)(void (*)(void))amb_py_message_term, METH_FASTCALL,
     "term(reason=None): it shall never come again."},
    {"fetch", (PyCFunction)(void (*)(void))amb_py_message_fetch, METH_FASTCALL,
     "fetch(timeout=None): bring the payload of a lazy message."},
    {"read", (PyCFunction)(void (*)(void))amb_py_message_read, METH_VARARGS | METH_KEYWORDS,
     "read(offset=0, size=None, *, into=None, timeout=None): some of its bytes, or how many were "
     "written into a buffer."},
    {"reply", (PyCFunction)(void (*)(void))amb_py_message_reply, METH_VARARGS | METH_KEYWORDS,
     "reply(data, *, timeout=None, **fields): answer a request."},
    {"prop", (PyCFunction)(void (*)(void))amb_py_message_prop, METH_FASTCALL,
     "prop(name, default=None): the bytes of one property."},
    {"__dlpack__", (PyCFunction)(void (*)(void))amb_py_message_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The payload as an array, in place and read-only."},
    {"__dlpack_device__", amb_py_message_dlpack_device, METH_NOARGS, "Where it is."},
    {NULL, NULL, 0, NULL},
};

#define GETTER(name, which, doc)                                                                   \
    {                                                                                              \
        name, amb_py_message_field, NULL, doc, (void *)(uintptr_t)(which)                          \
    }
static PyGetSetDef getters[] = {
    GETTER("topic", AMB_PY_TOPIC, "its topic"),
    GETTER("key", AMB_PY_KEY, "its key, or None"),
    GETTER("content_type", AMB_PY_CONTENT_TYPE, "its content type, or None"),
    GETTER("path", AMB_PY_PATH, "how it came: mapped, ring, tcp, ..."),
    GETTER("seq", AMB_PY_SEQ, "its number in its topic"),
    GETTER("time_ns", AMB_PY_TIME_NS, "when the broker took it, ns since 1970"),
    GETTER("deliveries", AMB_PY_DELIVERIES, "how often it has been delivered, this time included"),
    GETTER("lost", AMB_PY_LOST, "messages lost just before this one"),
    GETTER("lost_why", AMB_PY_LOST_WHY, "why they were lost"),
    GETTER("wants_reply", AMB_PY_WANTS_REPLY, "is it a request?"),
    GETTER("priority", AMB_PY_PRIORITY, "normal, high or low"),
    GETTER("mem", AMB_PY_MEM, "the memory it is in: host, pinned, cuda, managed"),
    GETTER("device", AMB_PY_DEVICE, "the GPU it is on; -1: the host"),
    GETTER("props", AMB_PY_PROPS, "its properties: a dict of bytes"),
    GETTER("subscription_id", AMB_PY_SUBSCRIPTION, "the id of its subscription, or 0"),
    {"data", message_data, NULL, "its bytes, flat: a memoryview", NULL},
    {"array", message_array, NULL,
     "NumPy's array of it, without NumPy a memoryview; in a GPU's memory the message itself", NULL},
    {"unflagged", amb_py_message_unflagged, NULL,
     "the same memory by DLPack without the flag that it is read-only: do not write", NULL},
    {"__array_interface__", message_interface, NULL, "the array, for NumPy", NULL},
    {"__cuda_array_interface__", message_interface, NULL, "the array, for libraries of CUDA",
     (void *)1},
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
                        .basicsize = sizeof(struct amb_py_message),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
