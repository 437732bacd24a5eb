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
#include "client/python/src/wait.h"

/* Each type: where the state has it, and its maker. */
static const struct {
    size_t offset;
    PyTypeObject *(*make)(PyObject *module);
} types[] = {
    {offsetof(struct amb_py_state, connection), amb_py_connection_type},
    {offsetof(struct amb_py_state, publisher), amb_py_publisher_type},
    {offsetof(struct amb_py_state, subscription), amb_py_subscription_type},
    {offsetof(struct amb_py_state, message), amb_py_message_type},
    {offsetof(struct amb_py_state, lease), amb_py_lease_type},
    {offsetof(struct amb_py_state, pending), amb_py_pending_type},
    {offsetof(struct amb_py_state, bytes), amb_py_bytes_type},
    {offsetof(struct amb_py_state, unflagged), amb_py_unflagged_type},
    {offsetof(struct amb_py_state, event), amb_py_event_type},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static PyTypeObject **type_at(struct amb_py_state *state, size_t i)
{
    return (PyTypeObject **)(void *)((char *)state + types[i].offset);
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
        PyModule_AddStringConstant(module, "version", amb_version()) != 0) {
        return -1;
    }
    for (size_t i = 0; i < TYPES; i++) {
        PyTypeObject *type = types[i].make(module);
        *type_at(state, i) = type;
        if (type == NULL || PyModule_AddType(module, type) != 0) {
            return -1;
        }
    }
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct amb_py_state *state = PyModule_GetState(module);
    Py_VISIT(state->error);
    Py_VISIT(state->held_warning);
    for (size_t i = 0; i < AMB_PY_ERRORS_MAX; i++) {
        Py_VISIT(state->errors[i]);
    }
    for (size_t i = 0; i < TYPES; i++) {
        Py_VISIT((PyObject *)(void *)*type_at(state, i));
    }
    return 0;
}

static int module_clear(PyObject *module)
{
    struct amb_py_state *state = PyModule_GetState(module);
    Py_CLEAR(state->error);
    Py_CLEAR(state->held_warning);
    for (size_t i = 0; i < AMB_PY_ERRORS_MAX; i++) {
        Py_CLEAR(state->errors[i]);
    }
    for (size_t i = 0; i < TYPES; i++) {
        Py_CLEAR(*type_at(state, i));
    }
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear(module);
}

static PyObject *interface_address(PyObject *module, PyObject *args)
{
    const char *interface = NULL;
    char address[AMB_ADDRESS_MAX];
    struct amb_error error = {.status = AMB_OK};
    if (!PyArg_ParseTuple(args, "|z:interface_address", &interface)) {
        return NULL;
    }
    enum amb_status status = amb_interface_address(interface, address, sizeof(address), &error);
    return status == AMB_OK ? PyUnicode_FromString(address)
                            : amb_py_raise(PyModule_GetState(module), status, error.text);
}

static PyMethodDef functions[] = {
    {"connect", (PyCFunction)(void (*)(void))amb_py_connect, METH_VARARGS | METH_KEYWORDS,
     "connect(url=None, **options): a Connection."},
    {"call", amb_py_call, METH_VARARGS, "call(f, arg): what it raises goes to sys.unraisablehook."},
    {"interruptible", amb_py_interruptible, METH_VARARGS,
     "interruptible(call, is_over): call(), whose waits end once is_over() is true."},
    {"interface_address", interface_address, METH_VARARGS,
     "interface_address(interface=None): an address of this machine by which others reach it."},
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
