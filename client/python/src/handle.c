/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/handle.h"

#include "client/python/src/errors.h"
#include "client/python/src/state.h"

#include <stdlib.h>

void amb_py_session_drop(struct amb_py_session *session)
{
    if (session != NULL &&
        atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) == 1) {
        if (session->conn != NULL) {
            PyThreadState *thread = PyEval_SaveThread();
            (void)amb_close(session->conn, AMB_SEC);
            PyEval_RestoreThread(thread);
        }
        free(session);
    }
}

bool amb_py_enter(struct amb_py_handle *self)
{
    if (amb_gate_enter(&self->session->gate)) {
        if (amb_gate_enter(&self->gate)) {
            return true;
        }
        amb_gate_leave(&self->session->gate);
    }
    (void)amb_py_raise(self->state, AMB_ECLOSED, NULL);
    return false;
}

void amb_py_leave(struct amb_py_handle *self)
{
    amb_gate_leave(&self->gate);
    amb_gate_leave(&self->session->gate);
}

PyObject *amb_py_handle_new(PyTypeObject *type, struct amb_py_state *state,
                            struct amb_py_session *session, void *handle)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct amb_py_handle *self = (struct amb_py_handle *)(void *)alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->state = state;
    self->session = session;
    atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&self->handle, handle, memory_order_release);
    return (PyObject *)(void *)self;
}

void amb_py_handle_free(struct amb_py_handle *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)(void *)self);
    amb_py_session_drop(self->session);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}
