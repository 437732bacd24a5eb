/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/handle.h"

#include "client/python/src/errors.h"
#include "client/python/src/news.h"
#include "client/python/src/publisher.h"

#include <stdlib.h>

/* A close of the connection, or a signal, is seen within so long. */
#define SLICE_NS (100 * AMB_MS)

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
            session->is_hasty = true;
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

/* Takes the handle, to end it. NULL: another close has taken it, and is inside the gate of the
 * object. The caller has entered the session's gate, and no other call is inside the object's. */
static void *take_handle(struct amb_py_handle *self)
{
    amb_gate_reenter(&self->gate); /* Before others can see that it has no handle any more. */
    return atomic_exchange(&self->handle, NULL);
}

static void leave_both(struct amb_py_handle *self)
{
    amb_gate_leave(&self->gate);
    amb_gate_leave(&self->session->gate);
}

/* In slices, for signals and the connection's close. Another answer than AMB_OK: it has not ended,
 * and perhaps an exception is raised. */
static enum amb_status await_end(struct amb_py_handle *self, amb_py_handle_fn await, void *handle,
                                 int64_t patience_ns)
{
    const struct amb_py_call call = {.run = await, .arg = handle};
    enum amb_status status;
    bool is_raised, goes_on;
    do {
        int64_t slice = patience_ns < SLICE_NS ? patience_ns : SLICE_NS;
        status = amb_py_wait(self, &call, slice, &is_raised);
        patience_ns -= patience_ns == AMB_FOREVER ? 0 : slice;
        goes_on = !is_raised && (status == AMB_ETIMEDOUT || status == AMB_ECLOSED) &&
                  patience_ns > 0 && !amb_gate_is_closed(&self->session->gate);
    } while (goes_on);
    return status;
}

/* False: an exception is raised. */
static bool close_in_session(struct amb_py_handle *self, const struct amb_py_end *how,
                             int64_t patience_ns)
{
    if (!amb_gate_enter(&self->session->gate)) {
        return true; /* It goes with the connection. */
    }
    enum amb_status status = AMB_OK;
    void *handle = take_handle(self);
    if (handle != NULL && how->await != NULL) {
        status = await_end(self, how->await, handle, patience_ns);
    }
    if (handle != NULL && status == AMB_OK) {
        PyThreadState *thread = PyEval_SaveThread(); /* No signal may raise here. */
        status = how->end(handle, AMB_NOWAIT);
        PyEval_RestoreThread(thread);
    } else if (handle != NULL) {
        atomic_store_explicit(&self->handle, handle, memory_order_release);
        status = status == AMB_EFORKED ? status : AMB_OK; /* The connection goes on with it. */
    }
    leave_both(self);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        (void)amb_py_raise(self->state, status, NULL);
    }
    return PyErr_Occurred() == NULL;
}

PyObject *amb_py_handle_close(struct amb_py_handle *self, const struct amb_py_end *how,
                              int64_t patience_ns)
{
    (void)amb_gate_close(&self->gate);
    if (amb_py_is_inside(&self->gate)) {
        return Py_NewRef(Py_None); /* The call around this one turns back; its end comes later. */
    }
    bool is_fine = amb_py_await_gate(&self->gate, self->session->pid) &&
                   close_in_session(self, how, patience_ns) &&
                   amb_py_await_gate(&self->gate, self->session->pid); /* of another close */
    return is_fine ? Py_NewRef(Py_None) : NULL;
}

bool amb_py_handle_end(struct amb_py_handle *self, const struct amb_py_end *how, int64_t timeout_ns)
{
    bool has_ended = false;
    if (amb_gate_enter(&self->session->gate)) { /* Else it goes with the connection. */
        void *handle = take_handle(self);
        PyThreadState *thread = PyEval_SaveThread(); /* No signal may raise here. */
        has_ended =
            handle == NULL || how->await == NULL || how->await(handle, timeout_ns) == AMB_OK;
        if (has_ended) {
            (void)how->end(handle, AMB_NOWAIT);
        }
        PyEval_RestoreThread(thread);
        leave_both(self);
    }
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
