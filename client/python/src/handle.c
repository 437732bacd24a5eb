/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/handle.h"

#include "client/python/src/errors.h"
#include "client/python/src/news.h"
#include "client/python/src/publisher.h"

#include <stdlib.h>

struct amb_py_session *amb_py_session_ref(struct amb_py_session *session)
{
    (void)atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
    return session;
}

void amb_py_session_drop(struct amb_py_session *session)
{
    if (session != NULL &&
        atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) == 1) {
        if (session->conn != NULL) {
            PyThreadState *thread = PyEval_SaveThread(); /* No signal may raise here. */
            (void)amb_close(session->conn, AMB_SEC);
            PyEval_RestoreThread(thread);
        }
        amb_py_loans_end(session->loans);
        amb_py_news_fini(&session->news);
        free(session);
    }
}

bool amb_py_try_enter(struct amb_py_handle *self)
{
    if (amb_gate_enter(&self->session->gate)) {
        if (amb_gate_enter(&self->gate)) {
            return true;
        }
        amb_gate_leave(&self->session->gate);
    }
    return false;
}

bool amb_py_enter(struct amb_py_handle *self)
{
    return amb_py_try_enter(self) || amb_py_raise(self->state, AMB_ECLOSED, NULL) != NULL;
}

void amb_py_leave(struct amb_py_handle *self)
{
    amb_gate_leave(&self->gate);
    amb_gate_leave(&self->session->gate);
}

enum amb_status amb_py_run(struct amb_py_handle *self, const struct amb_py_call *call,
                           int64_t timeout_ns)
{
    if (!amb_py_enter(self)) {
        return AMB_ECLOSED;
    }
    bool is_raised;
    enum amb_status status = amb_py_wait(self, call, timeout_ns, &is_raised);
    if (status != AMB_OK && !is_raised) {
        (void)amb_py_raise_of(self->state, status, self->session->conn);
    }
    amb_py_leave(self);
    return status;
}

PyObject *amb_py_handle_new(PyTypeObject *type, struct amb_py_state *state,
                            struct amb_py_session *session, void *handle)
{
    PyObject *object = PyType_GenericAlloc(type, 0);
    if (object == NULL) {
        return NULL;
    }
    struct amb_py_handle *self = amb_py_handle_of(object);
    self->state = state;
    self->session = amb_py_session_ref(session);
    atomic_store_explicit(&self->handle, handle, memory_order_release);
    return object;
}

/* No call is inside its own gate any more; perhaps another close is. That one ends it, so this one
 * is back at once, and awaits the gate. */
static enum amb_status end_in_session(struct amb_py_handle *self, amb_py_end_fn end,
                                      int64_t timeout_ns, bool *has_ended)
{
    *has_ended = amb_gate_enter(&self->session->gate);
    if (!*has_ended) {
        return AMB_OK; /* It goes with the connection. */
    }
    enum amb_status status = AMB_OK;
    amb_gate_reenter(&self->gate); /* Before others can see that it has no handle any more. */
    void *handle = atomic_exchange(&self->handle, NULL);
    if (handle != NULL) {
        PyThreadState *thread = PyEval_SaveThread(); /* No signal may raise here. */
        status = end(handle, timeout_ns);
        PyEval_RestoreThread(thread);
    }
    amb_gate_leave(&self->gate);
    amb_gate_leave(&self->session->gate);
    return status;
}

PyObject *amb_py_handle_close(struct amb_py_handle *self, amb_py_end_fn end)
{
    (void)amb_gate_close(&self->gate);
    if (amb_py_is_inside(&self->gate)) {
        return Py_NewRef(Py_None); /* The call around this one turns back; its end comes later. */
    }
    if (!amb_py_await_gate(&self->gate, self->session->pid)) {
        return NULL;
    }
    bool has_ended;
    enum amb_status status = end_in_session(self, end, AMB_NOWAIT, &has_ended);
    if (!amb_py_await_gate(&self->gate, self->session->pid)) {
        return NULL; /* Another close goes on with it. */
    }
    return status == AMB_OK || status == AMB_EAGAIN ? Py_NewRef(Py_None)
                                                    : amb_py_raise(self->state, status, NULL);
}

bool amb_py_handle_end(struct amb_py_handle *self, amb_py_end_fn end, int64_t timeout_ns)
{
    bool has_ended;
    (void)end_in_session(self, end, timeout_ns, &has_ended);
    amb_py_handle_free(self);
    return has_ended;
}

void amb_py_handle_free(struct amb_py_handle *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)(void *)self);
    amb_py_session_drop(self->session);
    PyObject_Free(self);
    Py_DECREF(type);
}
