/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscription: messages of the topics of a pattern, taken one by one or many at a time.
 */
#include "client/python/src/subscription.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/message.h"
#include "client/python/src/wait.h"

#include <stdlib.h>

#define MANY_MAX 1024u
#define POSITION_MAX 32768u

struct subscription {
    struct amb_py_handle handle; /* first */
    void *stream;                /* of GPU messages */
    bool trusts_pickle, has_warned;
    _Atomic bool turns_back; /* one call that waits does so */
};

static struct amb_sub *sub_of(struct amb_py_handle *self)
{
    return atomic_load_explicit(&self->handle, memory_order_acquire);
}

static void *stream_of(struct amb_py_handle *self)
{
    return ((struct subscription *)(void *)self)->stream;
}

void amb_py_subscription_set_stream(PyObject *object, void *stream)
{
    ((struct subscription *)(void *)object)->stream = stream;
}

/* Takes the message. NULL: an exception is raised. */
static PyObject *wrap(struct amb_py_handle *self, struct amb_msg *msg)
{
    PyObject *object = amb_py_message_new(self->state, msg, stream_of(self));
    if (object != NULL && ((struct subscription *)(void *)self)->trusts_pickle) {
        amb_py_message_trust(object);
    }
    return object;
}

/* ---- waits that nothing can end ---- */

/* Inside the gates. False: the warning has become an exception. */
static bool warn_if_held(struct amb_py_handle *self)
{
    struct subscription *sub = (struct subscription *)(void *)self;
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    if (sub->has_warned || amb_sub_stat(sub_of(self), &info) != AMB_OK) {
        return true;
    }
    /* The broker keeps a message that does not fit into the rest of the bytes. */
    if (info.held_msgs < info.credit_msgs &&
        info.held_bytes < info.credit_bytes - info.credit_bytes / 4) {
        return true;
    }
    sub->has_warned = true;
    return PyErr_WarnFormat(self->state->held_warning, 1,
                            "a reader waits and holds %llu messages (%llu bytes of memory) itself, "
                            "which is its credit (%llu messages, %llu bytes): nothing comes until "
                            "some are released, or detached",
                            (unsigned long long)info.held_msgs, (unsigned long long)info.held_bytes,
                            (unsigned long long)info.credit_msgs,
                            (unsigned long long)info.credit_bytes) == 0;
}

static PyObject *subscription_warn_if_held(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    bool is_fine = true;
    if (amb_py_try_enter(self)) {
        is_fine = warn_if_held(self);
        amb_py_leave(self);
    }
    return is_fine ? Py_NewRef(Py_None) : NULL;
}

/* ---- next ---- */

struct taking {
    struct amb_py_handle *self;
    struct amb_sub *sub;
    struct amb_msg *msg;
};

static bool look_once(void *arg)
{
    return warn_if_held(((const struct taking *)arg)->self);
}

static bool turns_back(void *arg)
{
    const struct taking *taking = arg;
    struct subscription *sub = (struct subscription *)(void *)taking->self;
    return atomic_load_explicit(&sub->turns_back, memory_order_relaxed) &&
           atomic_exchange(&sub->turns_back, false);
}

static enum amb_status next_once(void *arg, int64_t timeout_ns)
{
    struct taking *taking = arg;
    return amb_next(taking->sub, timeout_ns, &taking->msg);
}

/* NULL: an exception is raised, of *status. */
static PyObject *take(struct amb_py_handle *self, int64_t timeout_ns, enum amb_status *status)
{
    struct taking taking = {.self = self, .sub = sub_of(self)};
    const struct amb_py_call call = {.run = next_once,
                                     .arg = &taking,
                                     .may_idle = true,
                                     .look = look_once,
                                     .turns_back = turns_back};
    *status = amb_py_run(self, &call, timeout_ns);
    return *status == AMB_OK ? wrap(self, taking.msg) : NULL;
}

/* The timeout of a call whose arguments are (..., timeout=None). -1: an exception is raised. */
static int64_t timeout_of(PyObject *const *args, Py_ssize_t count, Py_ssize_t at, PyObject *names)
{
    PyObject *timeout = count > at ? args[at] : Py_None;
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    bool is_known =
        named == 0 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "timeout") == 0);
    if (count > at + 1 || count + named > at + 1 || !is_known) {
        PyErr_SetString(PyExc_TypeError,
                        at == 0 ? "next(timeout=None)" : "next_many(count, timeout=None)");
        return -1;
    }
    return amb_py_timeout(named != 0 ? args[count] : timeout);
}

static PyObject *subscription_next(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                   PyObject *names)
{
    int64_t timeout_ns = timeout_of(args, count, 0, names);
    enum amb_status status;
    return timeout_ns < 0 ? NULL : take(amb_py_handle_of(object), timeout_ns, &status);
}

/* The next message, or None: for a loop, to which an exception would cost more than the message. */
static PyObject *subscription_take(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    if (!amb_py_enter(self)) {
        return NULL;
    }
    struct amb_msg *msg;
    enum amb_status status = amb_next(sub_of(self), AMB_NOWAIT, &msg);
    PyObject *result = NULL;
    if (status == AMB_OK) {
        result = wrap(self, msg);
    } else if (status == AMB_EAGAIN) {
        result = Py_NewRef(Py_None);
    } else {
        (void)amb_py_raise_of(self->state, status, self->session->conn);
    }
    amb_py_leave(self);
    return result;
}

/* `for msg in sub`: until it is closed, or the connection stopped. */
static PyObject *subscription_iternext(PyObject *object)
{
    enum amb_status status;
    PyObject *msg = take(amb_py_handle_of(object), AMB_FOREVER, &status);
    if (msg == NULL && (status == AMB_ECLOSED || status == AMB_ESTOPPED)) {
        PyErr_Clear();
    }
    return msg;
}

/* ---- next_many ---- */

struct taking_many {
    struct amb_py_handle *self;
    struct amb_sub *sub;
    size_t max, count;
    struct amb_msg *msgs[MANY_MAX];
};

static enum amb_status next_many_once(void *arg, int64_t timeout_ns)
{
    struct taking_many *taking = arg;
    return amb_next_many(taking->sub, timeout_ns, taking->msgs, taking->max, &taking->count);
}

static bool look_many_once(void *arg)
{
    return warn_if_held(((const struct taking_many *)arg)->self);
}

/* Takes the messages. */
static PyObject *list_of(struct amb_py_handle *self, const struct taking_many *taking)
{
    PyObject *list = PyList_New((Py_ssize_t)taking->count);
    for (size_t i = 0; i < taking->count; i++) {
        if (list == NULL) {
            amb_msg_release(taking->msgs[i]);
            continue;
        }
        PyObject *msg = wrap(self, taking->msgs[i]);
        if (msg == NULL || PyList_SetItem(list, (Py_ssize_t)i, msg) != 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *subscription_next_many(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                        PyObject *names)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    int64_t timeout_ns = timeout_of(args, count, 1, names);
    size_t max = 0;
    if (timeout_ns < 0) {
        return NULL;
    }
    if (count >= 1) {
        max = PyLong_AsSize_t(args[0]);
    }
    if (PyErr_Occurred() != NULL || max == 0) {
        PyErr_Clear();
        PyErr_SetString(PyExc_ValueError, "next_many: how many, from 1 on");
        return NULL;
    }
    struct taking_many taking = {
        .self = self, .sub = sub_of(self), .max = max < MANY_MAX ? max : MANY_MAX};
    const struct amb_py_call call = {
        .run = next_many_once, .arg = &taking, .may_idle = true, .look = look_many_once};
    return amb_py_run(self, &call, timeout_ns) == AMB_OK ? list_of(self, &taking) : NULL;
}

/* ---- the rest ---- */

static PyObject *subscription_position(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    size_t len = POSITION_MAX;
    char *position = malloc(len);
    if (position == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = NULL;
    if (amb_py_enter(self)) {
        enum amb_status status = amb_sub_position(sub_of(self), position, &len);
        result = status == AMB_OK ? PyBytes_FromStringAndSize(position, (Py_ssize_t)len)
                                  : amb_py_raise_of(self->state, status, self->session->conn);
        amb_py_leave(self);
    }
    free(position);
    return result;
}

static PyObject *subscription_stat(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    if (!amb_py_enter(self)) {
        return NULL;
    }
    enum amb_status status = amb_sub_stat(sub_of(self), &info);
    amb_py_leave(self);
    if (status != AMB_OK) {
        return amb_py_raise(self->state, status, NULL);
    }
    return Py_BuildValue("{s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "narrowed",
                         PyBool_FromLong((long)info.narrowed), "pending_msgs", info.pending_msgs,
                         "pending_bytes", info.pending_bytes, "held_msgs", info.held_msgs,
                         "held_bytes", info.held_bytes, "delivered", info.delivered, "lost",
                         info.lost, "last_seq", info.last_seq, "staged_bytes", info.staged_bytes,
                         "credit_msgs", info.credit_msgs, "credit_bytes", info.credit_bytes);
}

static PyObject *subscription_trust_pickle(PyObject *object, PyObject *Py_UNUSED(unused))
{
    ((struct subscription *)(void *)object)->trusts_pickle = true;
    return Py_NewRef(Py_None);
}

static PyObject *subscription_turn_back(PyObject *object, PyObject *Py_UNUSED(unused))
{
    atomic_store(&((struct subscription *)(void *)object)->turns_back, true);
    return Py_NewRef(Py_None);
}

static PyObject *subscription_id(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(sub_of(amb_py_handle_of(object)));
}

enum amb_status amb_py_subscription_end(void *sub, int64_t timeout_ns)
{
    return amb_sub_close(sub, timeout_ns);
}

static const struct amb_py_end ends = {.end = amb_py_subscription_end};

static PyObject *subscription_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return amb_py_handle_close(amb_py_handle_of(object), &ends, AMB_NOWAIT);
}

static void subscription_dealloc(PyObject *object)
{
    (void)amb_py_handle_end(amb_py_handle_of(object), &ends, AMB_NOWAIT);
}

static PyMethodDef methods[] = {
    {"next", (PyCFunction)(void (*)(void))subscription_next, METH_FASTCALL | METH_KEYWORDS,
     "next(timeout=None): the next message."},
    {"take", subscription_take, METH_NOARGS, "take(): the next message, or None."},
    {"next_many", (PyCFunction)(void (*)(void))subscription_next_many,
     METH_FASTCALL | METH_KEYWORDS,
     "next_many(count, timeout=None): waits for one message, then takes what is there, up to count "
     "and to 1024."},
    {"position", subscription_position, METH_NOARGS,
     "position(): its place in its topics, for start= of another one."},
    {"trust_pickle", subscription_trust_pickle, METH_NOARGS,
     "trust_pickle(): messages from here on may be loaded by object()."},
    {"warn_if_held", subscription_warn_if_held, METH_NOARGS,
     "warn_if_held(): HeldWarning, once, where its credit is all held here."},
    {"turn_back", subscription_turn_back, METH_NOARGS,
     "turn_back(): one call of next that waits, or the next one, says WouldBlock within 0.2 s."},
    {"stat", subscription_stat, METH_NOARGS, "stat(): its counters, a dict."},
    {"close", subscription_close, METH_NOARGS, "close(): wakes those who wait, and ends."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"id", subscription_id, NULL, "the number by which events name it; 0: closed", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject *amb_py_subscription_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)subscription_dealloc},
                           {Py_tp_iter, (void *)PyObject_SelfIter},
                           {Py_tp_iternext, (void *)subscription_iternext},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, getters},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker.Subscription",
                        .basicsize = sizeof(struct subscription),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
