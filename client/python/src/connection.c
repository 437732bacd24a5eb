/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection: connect, and all that a connection makes.
 */
#include "client/python/src/connection.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/wait.h"

#include <stdlib.h>

/* ---- connect ---- */

static PyObject *make(struct amb_py_state *state, struct amb_conn *conn)
{
    struct amb_py_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        (void)amb_close(conn, AMB_NOWAIT);
        return PyErr_NoMemory();
    }
    session->conn = conn;
    atomic_init(&session->refs, 1);
    PyObject *object = amb_py_handle_new(state->connection, state, session, conn);
    amb_py_session_drop(session); /* The object has its own; or nobody has. */
    return object;
}

PyObject *amb_py_connect(PyObject *module, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {
        "url",         "name", "credentials",     "config",          "ca",      "server_name",
        "certificate", "key",  "trusted_network", "connect_timeout", "timeout", NULL};
    struct amb_py_state *state = PyModule_GetState(module);
    const char *url = NULL;
    struct amb_error error = {.status = AMB_OK};
    struct amb_options options = AMB_INIT(amb_options);
    PyObject *connect_timeout = Py_None, *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|z$zzzzzzzzOO:connect", AMB_PY_NAMES(names),
                                     &url, &options.name, &options.credentials, &options.config,
                                     &options.ca, &options.server_name, &options.certificate,
                                     &options.key, &options.trusted_network, &connect_timeout,
                                     &timeout)) {
        return NULL;
    }
    if ((connect_timeout != Py_None &&
         (options.connect_timeout_ns = amb_py_timeout(connect_timeout)) < 0) ||
        (timeout != Py_None && (options.timeout_ns = amb_py_timeout(timeout)) < 0)) {
        return NULL;
    }
    options.error = &error;
    struct amb_conn *conn;
    PyThreadState *thread = PyEval_SaveThread();
    enum amb_status status = amb_connect(url, &options, &conn);
    PyEval_RestoreThread(thread);
    return status == AMB_OK ? make(state, conn) : amb_py_raise(state, status, error.text);
}

/* ---- publish ---- */

struct publishing {
    struct amb_conn *conn;
    const char *topic;
    Py_buffer view;
};

static enum amb_status publish_once(void *arg, int64_t timeout_ns)
{
    const struct publishing *publishing = arg;
    return amb_publish(publishing->conn, publishing->topic, publishing->view.buf,
                       (size_t)publishing->view.len, timeout_ns);
}

static PyObject *connection_publish(PyObject *object, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"topic", "data", "timeout", NULL};
    struct amb_py_handle *self = amb_py_handle_of(object);
    PyObject *data, *timeout = Py_None;
    struct publishing publishing = {.conn = self->session->conn};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO|O:publish", AMB_PY_NAMES(names),
                                     &publishing.topic, &data, &timeout)) {
        return NULL;
    }
    int64_t timeout_ns = amb_py_timeout(timeout);
    if (timeout_ns < 0 || PyObject_GetBuffer(data, &publishing.view, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    /* A first use of a topic is a round trip. */
    const struct amb_py_call call = {.run = publish_once, .arg = &publishing, .is_slow = true};
    enum amb_status status = amb_py_run(self, &call, timeout_ns);
    PyBuffer_Release(&publishing.view);
    return status == AMB_OK ? Py_NewRef(Py_None) : NULL;
}

static enum amb_status flush_once(void *arg, int64_t timeout_ns)
{
    return amb_flush(arg, timeout_ns);
}

static PyObject *connection_flush(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    const struct amb_py_call call = {.run = flush_once, .arg = self->session->conn};
    int64_t timeout_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    if (timeout_ns < 0) {
        return NULL;
    }
    return amb_py_run(self, &call, timeout_ns) == AMB_OK ? Py_NewRef(Py_None) : NULL;
}

/* ---- what it makes ---- */

static PyObject *connection_publisher(PyObject *object, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"topic", "name", "confirm", NULL};
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_pub_options options = AMB_INIT(amb_pub_options);
    const char *topic;
    int confirm = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$zi:publisher", AMB_PY_NAMES(names), &topic,
                                     &options.name, &confirm) ||
        !amb_py_enter(self)) {
        return NULL;
    }
    options.confirm = (enum amb_confirm)confirm;
    struct amb_pub *pub;
    PyThreadState *thread = PyEval_SaveThread();
    enum amb_status status = amb_pub_open(self->session->conn, topic, &options, &pub);
    PyEval_RestoreThread(thread);
    PyObject *made = status == AMB_OK ? amb_py_handle_new(self->state->publisher, self->state,
                                                          self->session, pub)
                                      : amb_py_raise_of(self->state, status, self->session->conn);
    if (made == NULL && status == AMB_OK) {
        (void)amb_pub_close(pub, AMB_NOWAIT);
    }
    amb_py_leave(self);
    return made;
}

static PyObject *connection_subscribe(PyObject *object, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"pattern", "group", "durable",     "filter", "ack",
                                        "start",   "copy",  "credit_msgs", NULL};
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_sub_options options = AMB_INIT(amb_sub_options);
    const char *pattern;
    int ack = 0, start = 0, copy = 0;
    unsigned long long credit_msgs = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$zzziipK:subscribe", AMB_PY_NAMES(names),
                                     &pattern, &options.group, &options.durable, &options.filter,
                                     &ack, &start, &copy, &credit_msgs) ||
        !amb_py_enter(self)) {
        return NULL;
    }
    options.ack = (enum amb_ack)ack;
    options.start = (enum amb_start)start;
    options.copy = copy != 0;
    options.credit_msgs = credit_msgs;
    struct amb_sub *sub;
    PyThreadState *thread = PyEval_SaveThread();
    enum amb_status status = amb_subscribe(self->session->conn, pattern, &options, &sub);
    PyEval_RestoreThread(thread);
    PyObject *made = status == AMB_OK ? amb_py_handle_new(self->state->subscription, self->state,
                                                          self->session, sub)
                                      : amb_py_raise_of(self->state, status, self->session->conn);
    if (made == NULL && status == AMB_OK) {
        (void)amb_sub_close(sub, AMB_NOWAIT);
    }
    amb_py_leave(self);
    return made;
}

/* ---- the end ---- */

static PyObject *connection_stop(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    if (!amb_py_enter(self)) {
        return NULL;
    }
    amb_stop(self->session->conn);
    amb_py_leave(self);
    return Py_NewRef(Py_None);
}

static PyObject *connection_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_py_session *session = self->session;
    (void)amb_gate_close(&session->gate);
    if (!amb_py_await_gate(&session->gate)) {
        return NULL; /* Another close goes on with it. */
    }
    enum amb_status status = AMB_OK;
    struct amb_conn *conn = atomic_exchange(&self->handle, NULL);
    if (conn != NULL) {
        session->conn = NULL;
        PyThreadState *thread = PyEval_SaveThread();
        status = amb_close(conn, AMB_NOWAIT);
        PyEval_RestoreThread(thread);
    }
    bool is_over = status == AMB_OK || status == AMB_EAGAIN || status == AMB_ETIMEDOUT;
    return is_over ? Py_NewRef(Py_None) : amb_py_raise(self->state, status, NULL);
}

static PyMethodDef methods[] = {
    {"publish", (PyCFunction)(void (*)(void))connection_publish, METH_VARARGS | METH_KEYWORDS,
     "publish(topic, data, timeout=None): publish a copy of the bytes."},
    {"publisher", (PyCFunction)(void (*)(void))connection_publisher, METH_VARARGS | METH_KEYWORDS,
     "publisher(topic, *, name=None, confirm=0): a Publisher."},
    {"subscribe", (PyCFunction)(void (*)(void))connection_subscribe, METH_VARARGS | METH_KEYWORDS,
     "subscribe(pattern, *, group=None, ...): a Subscription."},
    {"flush", (PyCFunction)(void (*)(void))connection_flush, METH_FASTCALL,
     "flush(timeout=None): wait until the broker has confirmed all."},
    {"stop", connection_stop, METH_NOARGS, "stop(): ends every wait for messages, for good."},
    {"close", connection_close, METH_NOARGS,
     "close(): without waiting for the broker; messages that are held stay valid."},
    {NULL, NULL, 0, NULL},
};

/* The session closes the connection, with its last reference. */
static void connection_dealloc(PyObject *object)
{
    amb_py_handle_free(amb_py_handle_of(object));
}

PyTypeObject *amb_py_connection_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)connection_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
    PyType_Spec spec = {.name = "ambroker._amb.Connection",
                        .basicsize = sizeof(struct amb_py_handle),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
