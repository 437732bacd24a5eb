/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/pending.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/message.h"
#include "client/python/src/news.h"
#include "client/python/src/source.h"

#include <stdlib.h>

struct pending {
    PyObject_HEAD struct amb_py_state *state;
    struct amb_py_session *session;
    struct amb_py_asking *asking; /* NULL: it has failed at once */
};

static struct pending *self_of(PyObject *object)
{
    return (struct pending *)(void *)object;
}

struct posting {
    struct amb_conn *conn;
    const char *topic;
    const struct amb_out *out;
    int64_t timeout_ns;
    struct amb_py_asking *asking;
};

/* It waits for an answer of the broker's where the topic is new, and for room. */
static enum amb_status post_once(void *arg, int64_t timeout_ns)
{
    const struct posting *posting = arg;
    (void)timeout_ns;
    return amb_request_post(posting->conn, posting->topic, posting->out, posting->timeout_ns,
                            amb_py_on_reply, posting->asking);
}

static PyObject *pending_new(struct amb_py_handle *conn)
{
    PyObject *object = PyType_GenericAlloc(conn->state->pending, 0);
    if (object == NULL) {
        return NULL;
    }
    struct pending *self = self_of(object);
    self->state = conn->state;
    self->session = amb_py_session_ref(conn->session);
    self->asking = calloc(1, sizeof(*self->asking));
    if (self->asking == NULL) {
        Py_DECREF(object);
        return PyErr_NoMemory();
    }
    self->asking->session = conn->session;
    self->asking->object = object;
    return object;
}

static PyObject *post(struct amb_py_handle *conn, const char *topic, struct amb_py_source *source,
                      int64_t timeout_ns)
{
    PyObject *object = pending_new(conn);
    if (object == NULL) {
        return NULL;
    }
    struct posting posting = {.conn = conn->session->conn,
                              .topic = topic,
                              .out = &source->out,
                              .timeout_ns = timeout_ns,
                              .asking = self_of(object)->asking};
    const struct amb_py_call call = {.run = post_once, .arg = &posting, .is_slow = true};
    if (amb_py_run(conn, &call, AMB_NOWAIT) != AMB_OK) {
        free(self_of(object)->asking);
        self_of(object)->asking = NULL;
        Py_CLEAR(object);
    }
    return object;
}

PyObject *amb_py_request_post(PyObject *connection, PyObject *args, PyObject *keywords)
{
    struct amb_py_handle *conn = amb_py_handle_of(connection);
    const char *topic;
    PyObject *data, *timeout, *result = NULL;
    if (!PyArg_ParseTuple(args, "sOO:request_post", &topic, &data, &timeout)) {
        return NULL;
    }
    int64_t timeout_ns = amb_py_timeout(timeout);
    if (timeout_ns < 0) {
        return NULL;
    }
    struct amb_py_source source;
    if (amb_py_source_read(&source, conn->state, data, keywords, NULL)) {
        result = post(conn, topic, &source, timeout_ns);
    }
    amb_py_source_fini(&source);
    return result;
}

/* ---- the answer ---- */

static bool is_done(const struct pending *self)
{
    struct amb_py_news *news = &self->session->news;
    (void)pthread_mutex_lock(&news->lock);
    bool has_answer = self->asking->is_done;
    (void)pthread_mutex_unlock(&news->lock);
    return has_answer;
}

static PyObject *pending_done(PyObject *object, void *closure)
{
    (void)closure;
    return PyBool_FromLong(is_done(self_of(object)));
}

static PyObject *pending_result(PyObject *object, PyObject *is_trusted)
{
    const struct pending *self = self_of(object);
    if (!is_done(self)) {
        return amb_py_raise(self->state, AMB_EAGAIN, "there is no answer yet");
    }
    struct amb_py_asking *asking = self->asking;
    if (asking->status != AMB_OK) {
        return amb_py_raise(self->state, asking->status, NULL);
    }
    PyObject *reply = amb_py_message_new(self->state, amb_msg_ref(asking->reply), NULL);
    if (reply != NULL && PyObject_IsTrue(is_trusted) > 0) {
        amb_py_message_trust(reply);
    }
    return reply;
}

static void pending_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    struct pending *self = self_of(object);
    if (self->asking != NULL) {
        amb_py_asking_drop(self->asking);
    }
    amb_py_session_drop(self->session);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyTypeObject *amb_py_pending_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"result", pending_result, METH_O, "result(trust_pickle): the answer, or its exception."},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef getters[] = {
        {"done", pending_done, NULL, "is there an answer, or none to come?", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)pending_dealloc},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, getters},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker._amb.Pending",
                        .basicsize = sizeof(struct pending),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
