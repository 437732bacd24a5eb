/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module ambroker._amb. Its state is its own: nothing is global.
 */
#include "client/python/src/capsule.h"
#include "client/python/src/connection.h"
#include "client/python/src/errors.h"
#include "client/python/src/lease.h"
#include "client/python/src/message.h"
#include "client/python/src/news.h"
#include "client/python/src/pending.h"
#include "client/python/src/publisher.h"
#include "client/python/src/state.h"
#include "client/python/src/subscription.h"

static int add_type(PyObject *module, PyTypeObject **out, PyTypeObject *type)
{
    *out = type;
    return type != NULL ? PyModule_AddType(module, type) : -1;
}

/* libamb and this module's types are of one interpreter. */
static int refuse_others(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) {
        return 0;
    }
    PyErr_SetString(PyExc_ImportError, "ambroker runs in the main interpreter alone");
    return -1;
}

static int module_exec(PyObject *module)
{
    struct amb_py_state *state = PyModule_GetState(module);
    if (refuse_others() != 0 || amb_py_errors_init(module, state) != 0 ||
        PyModule_AddStringConstant(module, "version", amb_version()) != 0 ||
        add_type(module, &state->connection, amb_py_connection_type(module)) != 0 ||
        add_type(module, &state->publisher, amb_py_publisher_type(module)) != 0 ||
        add_type(module, &state->subscription, amb_py_subscription_type(module)) != 0 ||
        add_type(module, &state->message, amb_py_message_type(module)) != 0 ||
        add_type(module, &state->lease, amb_py_lease_type(module)) != 0 ||
        add_type(module, &state->pending, amb_py_pending_type(module)) != 0 ||
        add_type(module, &state->bytes, amb_py_bytes_type(module)) != 0 ||
        add_type(module, &state->unflagged, amb_py_unflagged_type(module)) != 0 ||
        add_type(module, &state->event, amb_py_event_type()) != 0) {
        return -1;
    }
    return 0;
}

/* The types, in one list. */
#define TYPES_MAX 9
static void list_types(struct amb_py_state *state, PyTypeObject **out[TYPES_MAX])
{
    out[0] = &state->connection;
    out[1] = &state->publisher;
    out[2] = &state->subscription;
    out[3] = &state->message;
    out[4] = &state->lease;
    out[5] = &state->pending;
    out[6] = &state->bytes;
    out[7] = &state->unflagged;
    out[8] = &state->event;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct amb_py_state *state = PyModule_GetState(module);
    PyTypeObject **types[TYPES_MAX];
    list_types(state, types);
    Py_VISIT(state->error);
    for (size_t i = 0; i < AMB_PY_ERRORS_MAX; i++) {
        Py_VISIT(state->errors[i]);
    }
    for (size_t i = 0; i < TYPES_MAX; i++) {
        Py_VISIT((PyObject *)(void *)*types[i]);
    }
    return 0;
}

static int module_clear(PyObject *module)
{
    struct amb_py_state *state = PyModule_GetState(module);
    PyTypeObject **types[TYPES_MAX];
    list_types(state, types);
    Py_CLEAR(state->error);
    for (size_t i = 0; i < AMB_PY_ERRORS_MAX; i++) {
        Py_CLEAR(state->errors[i]);
    }
    for (size_t i = 0; i < TYPES_MAX; i++) {
        Py_CLEAR(*types[i]);
    }
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear(module);
}

static PyMethodDef functions[] = {
    {"connect", (PyCFunction)(void (*)(void))amb_py_connect, METH_VARARGS | METH_KEYWORDS,
     "connect(url=None, **options): a Connection."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "ambroker._amb",
    .m_doc = "The core of ambroker: libamb's calls, in slices that signals can end.",
    .m_size = sizeof(struct amb_py_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__amb(void);
PyMODINIT_FUNC PyInit__amb(void)
{
    return PyModuleDef_Init(&definition);
}
