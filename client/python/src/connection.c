/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection: connect, and all that a connection makes.
 */
#include "client/python/src/connection.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/keywords.h"
#include "client/python/src/message.h"
#include "client/python/src/news.h"
#include "client/python/src/pending.h"
#include "client/python/src/publisher.h"
#include "client/python/src/subscription.h"
#include "client/python/src/wait.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- connect ---- */

static struct amb_py_session *session_new(void)
{
    struct amb_py_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&session->refs, 1);
    session->pid = getpid();
    amb_py_news_init(&session->news);
    return session;
}

PyObject *amb_py_connect(PyObject *module, PyObject *args, PyObject *keywords)
{
    struct amb_py_state *state = PyModule_GetState(module);
    const char *url = NULL;
    struct amb_error error = {.status = AMB_OK};
    struct amb_options options;
    if (!PyArg_ParseTuple(args, "|z:connect", &url) || !amb_py_conn_keywords(keywords, &options)) {
        return NULL;
    }
    struct amb_py_session *session = session_new();
    if (session == NULL) {
        return NULL;
    }
    options.error = &error;
    options.on_event = amb_py_on_event;
    options.event_arg = options.interrupted_arg = session;
    options.is_interrupted = amb_py_is_interrupted;
    amb_py_release_gil();
    enum amb_status status = amb_connect(url, &options, &session->conn);
    amb_py_take_gil();
    amb_py_put_off(status);
    PyObject *object = NULL;
    if (status == AMB_OK) {
        object = amb_py_handle_new(state->connection, state, session, session->conn);
    } else if (PyErr_Occurred() == NULL) { /* Else a signal has raised one. */
        (void)amb_py_raise(state, status, error.text);
    }
    amb_py_session_drop(session); /* The object has its own; or nobody has. */
    return object;
}

/* ---- waits ---- */

static enum amb_status poll_once(void *arg, int64_t timeout_ns)
{
    return amb_poll(arg, timeout_ns);
}

struct flushing {
    struct amb_conn *conn;
    enum amb_status (*call)(struct amb_conn *conn, int64_t timeout_ns);
    int64_t timeout_ns;
};

/* A slice would begin anew, with what has been published meanwhile. Signals end it, and events are
 * told: is_interrupted. */
static enum amb_status flush_once(void *arg, int64_t timeout_ns)
{
    const struct flushing *flushing = arg;
    (void)timeout_ns;
    return flushing->call(flushing->conn, flushing->timeout_ns);
}

/* A call of the connection whose one argument is a timeout. */
static PyObject *flush(PyObject *object, PyObject *const *args, Py_ssize_t count,
                       enum amb_status (*once)(struct amb_conn *conn, int64_t timeout_ns))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct flushing flushing = {.conn = self->session->conn,
                                .call = once,
                                .timeout_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_FOREVER};
    const struct amb_py_call call = {.run = flush_once, .arg = &flushing, .is_slow = true};
    bool is_done = flushing.timeout_ns >= 0 && amb_py_run(self, &call, AMB_NOWAIT) == AMB_OK;
    return is_done ? Py_NewRef(Py_None) : NULL;
}

static PyObject *connection_flush(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    return flush(object, args, count, amb_flush);
}

static PyObject *connection_drain(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    return flush(object, args, count, amb_drain);
}

static PyObject *connection_poll(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    int64_t timeout_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    if (timeout_ns < 0 || !amb_py_enter(self)) {
        return NULL;
    }
    const struct amb_py_call call = {
        .run = poll_once, .arg = self->session->conn, .only_waits = true, .may_idle = true};
    bool is_raised;
    enum amb_status status = amb_py_wait(self, &call, timeout_ns, &is_raised);
    bool is_fine = status == AMB_OK || status == AMB_ETIMEDOUT || status == AMB_EAGAIN;
    PyObject *result = NULL;
    if (is_fine) {
        result = amb_py_news_take(self->state, self->session);
    } else if (!is_raised) {
        (void)amb_py_raise_of(self->state, status, self->session->conn);
    }
    amb_py_leave(self);
    return result;
}

/* News that have come already, also after the end. */
static PyObject *connection_news(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    return amb_py_news_take(self->state, self->session);
}

static PyObject *connection_stat(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return Py_BuildValue("{s:K}", "events_dropped",
                         amb_py_news_dropped(amb_py_handle_of(object)->session));
}

static PyObject *connection_set_hook(PyObject *object, PyObject *hook)
{
    struct amb_py_news *news = &amb_py_handle_of(object)->session->news;
    PyObject *former = news->hook;
    news->hook = hook != Py_None ? Py_NewRef(hook) : NULL;
    Py_XDECREF(former);
    return Py_NewRef(Py_None);
}

static PyObject *connection_fileno(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    if (!amb_py_enter(self)) {
        return NULL;
    }
    self->session->is_watched = true;
    int fd = amb_fd(self->session->conn);
    amb_py_leave(self);
    return fd >= 0 ? PyLong_FromLong(fd) : amb_py_raise(self->state, AMB_EFORKED, NULL);
}

/* ---- questions ---- */

struct question {
    struct amb_conn *conn;
    const char *query;
    int64_t timeout_ns;
    struct amb_msg *answer;
};

/* One round trip, which a slice would begin anew. Signals end it: is_interrupted. */
static enum amb_status ask_once(void *arg, int64_t timeout_ns)
{
    struct question *question = arg;
    (void)timeout_ns;
    return amb_admin(question->conn, question->query, question->timeout_ns, &question->answer);
}

static PyObject *connection_admin(PyObject *object, PyObject *args)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct question question = {.conn = self->session->conn};
    PyObject *timeout;
    if (!PyArg_ParseTuple(args, "sO:admin", &question.query, &timeout)) {
        return NULL;
    }
    question.timeout_ns = amb_py_timeout(timeout);
    const struct amb_py_call call = {.run = ask_once, .arg = &question, .is_slow = true};
    if (question.timeout_ns < 0 || amb_py_run(self, &call, AMB_NOWAIT) != AMB_OK) {
        return NULL;
    }
    return amb_py_message_new(self->state, question.answer, NULL);
}

/* ---- what it makes ---- */

/* Inside the gates. Takes the handle where it fails. */
static PyObject *wrap(struct amb_py_handle *self, PyTypeObject *type, enum amb_status status,
                      void *handle, amb_py_handle_fn end)
{
    if (status != AMB_OK) {
        if (PyErr_Occurred() == NULL) {
            bool is_closing = status == AMB_ECANCELED && amb_gate_is_closed(&self->session->gate);
            (void)amb_py_raise_of(self->state, is_closing ? AMB_ECLOSED : status,
                                  self->session->conn);
        }
        return NULL;
    }
    PyObject *made = amb_py_handle_new(type, self->state, self->session, handle);
    if (made == NULL) {
        (void)end(handle, AMB_NOWAIT);
    }
    return made;
}

static PyObject *connection_publisher(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_pub_options options;
    const char *topic;
    if (!PyArg_ParseTuple(args, "s:publisher", &topic) ||
        !amb_py_pub_keywords(keywords, &options)) {
        return NULL;
    }
    amb_py_orphans_look(self->session);
    if (!amb_py_enter(self)) {
        return NULL;
    }
    struct amb_pub *pub;
    amb_py_release_gil();
    enum amb_status status = amb_pub_open(self->session->conn, topic, &options, &pub);
    amb_py_take_gil();
    amb_py_put_off(status);
    PyObject *made = wrap(self, self->state->publisher, status, pub, amb_py_publisher_end);
    if (made != NULL) {
        amb_py_publisher_set_lease_mem(made, options.lease_mem, options.device);
    }
    amb_py_leave(self);
    return made;
}

static PyObject *connection_subscribe(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_py_sub_keywords read;
    const char *pattern;
    if (!PyArg_ParseTuple(args, "s:subscribe", &pattern) || !amb_py_sub_keywords(keywords, &read) ||
        !amb_py_enter(self)) {
        return NULL;
    }
    struct amb_sub *sub;
    amb_py_release_gil();
    enum amb_status status = amb_subscribe(self->session->conn, pattern, &read.options, &sub);
    amb_py_take_gil();
    amb_py_put_off(status);
    PyObject *made = wrap(self, self->state->subscription, status, sub, amb_py_subscription_end);
    if (made != NULL) {
        amb_py_subscription_set_stream(made, read.stream);
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

/* From here on every call raises Closed; close is still to come. */
static PyObject *connection_shut(PyObject *object, PyObject *Py_UNUSED(unused))
{
    (void)amb_gate_close(&amb_py_handle_of(object)->session->gate);
    return Py_NewRef(Py_None);
}

/* Nobody is inside any more. A signal ends it. */
static enum amb_status flush_last(struct amb_conn *conn, int64_t timeout_ns)
{
    bool is_raised;
    struct flushing flushing = {.conn = conn, .call = amb_flush, .timeout_ns = timeout_ns};
    const struct amb_py_call call = {.run = flush_once, .arg = &flushing, .is_slow = true};
    return amb_py_wait(NULL, &call, AMB_NOWAIT, &is_raised);
}

/* Calls of other threads turn back first, so that a flush has an end. */
static PyObject *connection_close(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_py_session *session = self->session;
    int64_t timeout_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_NOWAIT;
    if (timeout_ns < 0) {
        return NULL;
    }
    (void)amb_gate_close(&session->gate);
    if (amb_py_is_inside(&session->gate)) {
        return Py_NewRef(Py_None); /* The call around this one turns back; its end comes later. */
    }
    if (!amb_py_await_gate(&session->gate, session->pid)) {
        return NULL; /* Another close goes on with it. */
    }
    enum amb_status status = AMB_OK;
    struct amb_conn *conn = atomic_exchange(&self->handle, NULL);
    if (conn != NULL) {
        session->conn = NULL;
        session->is_ending = true;
        status = flush_last(conn, timeout_ns);
        session->is_hasty = true;
        amb_py_release_gil();
        enum amb_status closed = amb_close(conn, AMB_NOWAIT);
        amb_py_take_gil();
        session->is_over = true;
        struct amb_py_loan *loans = session->loans;
        session->loans = NULL;
        amb_py_loans_end(loans);
        status = status == AMB_OK ? closed : status;
    }
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    bool is_over = status == AMB_OK ||
                   (timeout_ns == AMB_NOWAIT && (status == AMB_EAGAIN || status == AMB_ETIMEDOUT));
    return is_over ? Py_NewRef(Py_None) : amb_py_raise(self->state, status, NULL);
}

static PyObject *connection_is_closed(PyObject *object, void *closure)
{
    (void)closure;
    return PyBool_FromLong(amb_gate_is_closed(&amb_py_handle_of(object)->session->gate));
}

static PyMethodDef methods[] = {
    {"publisher", (PyCFunction)(void (*)(void))connection_publisher, METH_VARARGS | METH_KEYWORDS,
     "publisher(topic, **options): a Publisher."},
    {"subscribe", (PyCFunction)(void (*)(void))connection_subscribe, METH_VARARGS | METH_KEYWORDS,
     "subscribe(pattern, **options): a Subscription."},
    {"request_post", (PyCFunction)(void (*)(void))amb_py_request_post, METH_VARARGS | METH_KEYWORDS,
     "request_post(topic, data, timeout, **fields): a Pending."},
    {"admin", connection_admin, METH_VARARGS, "admin(query, timeout): a Message of JSON."},
    {"flush", (PyCFunction)(void (*)(void))connection_flush, METH_FASTCALL,
     "flush(timeout=None): wait until the broker has confirmed what was published so far."},
    {"drain", (PyCFunction)(void (*)(void))connection_drain, METH_FASTCALL,
     "drain(timeout=None): take no new messages, and wait for those under way."},
    {"poll", (PyCFunction)(void (*)(void))connection_poll, METH_FASTCALL,
     "poll(timeout=None): (events, Pendings that are done)."},
    {"news", connection_news, METH_NOARGS, "news(): as poll, of what has come already."},
    {"set_hook", connection_set_hook, METH_O, "set_hook(f): called in waits where news are due."},
    {"fileno", connection_fileno, METH_NOARGS, "fileno(): readable when poll has something to do."},
    {"stat", connection_stat, METH_NOARGS,
     "stat(): events_dropped: the oldest, because nobody took them; 64 wait."},
    {"stop", connection_stop, METH_NOARGS, "stop(): ends every wait for messages, for good."},
    {"shut", connection_shut, METH_NOARGS, "shut(): calls turn back from here on."},
    {"close", (PyCFunction)(void (*)(void))connection_close, METH_FASTCALL,
     "close(timeout=0): flush, then close whatever that says; held messages stay valid."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", connection_is_closed, NULL, "has close been called?", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* The session closes the connection, with its last reference. */
static void connection_dealloc(PyObject *object)
{
    amb_py_handle_free(amb_py_handle_of(object));
}

PyTypeObject *amb_py_connection_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)connection_dealloc},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, getters},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker._amb.Connection",
                        .basicsize = sizeof(struct amb_py_handle),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
