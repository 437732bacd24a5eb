/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscription: messages of the topics of a pattern, taken one by one.
 */
#include "client/python/src/subscription.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/message.h"
#include "client/python/src/state.h"
#include "client/python/src/wait.h"

static struct amb_py_handle *self_of(PyObject *object)
{
    return (struct amb_py_handle *)(void *)object;
}

struct taking {
    struct amb_sub *sub;
    struct amb_msg *msg;
};

static enum amb_status next_once(void *arg, int64_t timeout_ns)
{
    struct taking *taking = arg;
    return amb_next(taking->sub, timeout_ns, &taking->msg);
}

/* NULL: an exception is raised, of *status. */
static PyObject *take(struct amb_py_handle *self, int64_t timeout_ns, enum amb_status *status)
{
    *status = AMB_ECLOSED;
    if (!amb_py_enter(self)) {
        return NULL;
    }
    bool is_raised;
    struct taking taking = {.sub = atomic_load_explicit(&self->handle, memory_order_acquire)};
    const struct amb_py_call call = {.run = next_once, .arg = &taking};
    *status = amb_py_wait(self, &call, timeout_ns, &is_raised);
    if (*status != AMB_OK && !is_raised) {
        (void)amb_py_raise_of(self->state, *status, self->session->conn);
    }
    amb_py_leave(self);
    return *status == AMB_OK ? amb_py_message_new(self->state, taking.msg) : NULL;
}

static PyObject *subscription_next(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    if (count > 1) {
        PyErr_SetString(PyExc_TypeError, "next(timeout=None)");
        return NULL;
    }
    int64_t timeout_ns = count == 1 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    enum amb_status status;
    return timeout_ns < 0 ? NULL : take(self_of(object), timeout_ns, &status);
}

/* `for msg in sub`: until it is closed, or the connection stopped. */
static PyObject *subscription_iternext(PyObject *object)
{
    enum amb_status status;
    PyObject *msg = take(self_of(object), AMB_FOREVER, &status);
    if (msg == NULL && (status == AMB_ECLOSED || status == AMB_ESTOPPED)) {
        PyErr_Clear();
    }
    return msg;
}

static enum amb_status end(struct amb_py_handle *self)
{
    struct amb_sub *sub = atomic_exchange(&self->handle, NULL);
    PyThreadState *thread = PyEval_SaveThread();
    enum amb_status status = amb_sub_close(sub, AMB_NOWAIT);
    PyEval_RestoreThread(thread);
    return status;
}

static PyObject *subscription_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = self_of(object);
    (void)amb_gate_close(&self->gate);
    if (!amb_py_await_gate(&self->gate)) {
        return NULL;
    }
    enum amb_status status = AMB_OK;
    if (amb_gate_enter(&self->session->gate)) { /* Else it has gone with the connection. */
        status = end(self);
        amb_gate_leave(&self->session->gate);
    }
    return status == AMB_OK || status == AMB_EAGAIN ? Py_NewRef(Py_None)
                                                    : amb_py_raise(self->state, status, NULL);
}

static void subscription_dealloc(PyObject *object)
{
    struct amb_py_handle *self = self_of(object);
    if (amb_gate_enter(&self->session->gate)) {
        (void)end(self);
        amb_gate_leave(&self->session->gate);
    }
    amb_py_handle_free(self);
}

static PyMethodDef methods[] = {
    {"next", (PyCFunction)(void (*)(void))subscription_next, METH_FASTCALL,
     "next(timeout=None): the next message."},
    {"close", subscription_close, METH_NOARGS, "close(): wakes those who wait, and ends."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject *amb_py_subscription_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)subscription_dealloc},
                           {Py_tp_iter, (void *)PyObject_SelfIter},
                           {Py_tp_iternext, (void *)subscription_iternext},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker.Subscription",
                        .basicsize = sizeof(struct amb_py_handle),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
