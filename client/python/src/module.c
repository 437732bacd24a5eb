/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module ambroker._amb. Its state is its own: nothing is global.
 */
#include "client/python/src/connection.h"
#include "client/python/src/errors.h"
#include "client/python/src/message.h"
#include "client/python/src/publisher.h"
#include "client/python/src/state.h"
#include "client/python/src/subscription.h"

static int add_type(PyObject *module, PyTypeObject **out, PyTypeObject *type)
{
    *out = type;
    return type != NULL ? PyModule_AddType(module, type) : -1;
}

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"ACK_NONE", AMB_ACK_NONE},
        {"ACK_EXPLICIT", AMB_ACK_EXPLICIT},
        {"ACK_CUMULATIVE", AMB_ACK_CUMULATIVE},
        {"START_NEW", AMB_START_NEW},
        {"START_LAST", AMB_START_LAST},
        {"START_FIRST", AMB_START_FIRST},
        {"CONFIRM_ACCEPTED", AMB_CONFIRM_ACCEPTED},
        {"CONFIRM_DELIVERED", AMB_CONFIRM_DELIVERED},
    };
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) != 0) {
            return -1;
        }
    }
    return PyModule_AddStringConstant(module, "version", amb_version());
}

static int module_exec(PyObject *module)
{
    struct amb_py_state *state = PyModule_GetState(module);
    if (amb_py_errors_init(module, state) != 0 || add_constants(module) != 0 ||
        add_type(module, &state->connection, amb_py_connection_type(module)) != 0 ||
        add_type(module, &state->publisher, amb_py_publisher_type(module)) != 0 ||
        add_type(module, &state->subscription, amb_py_subscription_type(module)) != 0 ||
        add_type(module, &state->message, amb_py_message_type(module)) != 0) {
        return -1;
    }
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct amb_py_state *state = PyModule_GetState(module);
    Py_VISIT(state->error);
    for (size_t i = 0; i < AMB_PY_ERRORS_MAX; i++) {
        Py_VISIT(state->errors[i]);
    }
    Py_VISIT((PyObject *)(void *)state->connection);
    Py_VISIT((PyObject *)(void *)state->publisher);
    Py_VISIT((PyObject *)(void *)state->subscription);
    Py_VISIT((PyObject *)(void *)state->message);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct amb_py_state *state = PyModule_GetState(module);
    Py_CLEAR(state->error);
    for (size_t i = 0; i < AMB_PY_ERRORS_MAX; i++) {
        Py_CLEAR(state->errors[i]);
    }
    Py_CLEAR(state->connection);
    Py_CLEAR(state->publisher);
    Py_CLEAR(state->subscription);
    Py_CLEAR(state->message);
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear(module);
}

static PyMethodDef functions[] = {
    {"connect", (PyCFunction)(void (*)(void))amb_py_connect, METH_VARARGS | METH_KEYWORDS,
     "connect(url=None, *, name=None, ...): a Connection."},
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
