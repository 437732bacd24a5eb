/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscription: messages of the topics of a pattern, taken one by one.
 */
#include "client/python/src/subscription.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/message.h"
#include "client/python/src/wait.h"

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
    struct taking taking = {.sub = atomic_load_explicit(&self->handle, memory_order_acquire)};
    const struct amb_py_call call = {.run = next_once, .arg = &taking};
    *status = amb_py_run(self, &call, timeout_ns);
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
    return timeout_ns < 0 ? NULL : take(amb_py_handle_of(object), timeout_ns, &status);
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

static enum amb_status end(void *sub, int64_t timeout_ns)
{
    return amb_sub_close(sub, timeout_ns);
}

static PyObject *subscription_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return amb_py_handle_close(amb_py_handle_of(object), end);
}

static void subscription_dealloc(PyObject *object)
{
    amb_py_handle_end(amb_py_handle_of(object), end, AMB_NOWAIT);
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
