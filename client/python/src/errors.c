/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/errors.h"

static const struct class
{
    enum amb_status status;
    const char *name;
    PyObject **builtin; /* the base beside Error; NULL: none */
} classes[] = {
    {AMB_EAGAIN, "WouldBlock", &PyExc_BlockingIOError},
    {AMB_ETIMEDOUT, "Timeout", &PyExc_TimeoutError},
    {AMB_ESTOPPED, "Stopped", NULL},
    {AMB_EINVAL, "Invalid", &PyExc_ValueError},
    {AMB_ESTATE, "WrongState", NULL},
    {AMB_ENOMEM, "NoMemory", &PyExc_MemoryError},
    {AMB_ENOTSUP, "NotSupported", NULL},
    {AMB_ETOPIC, "Topic", &PyExc_ValueError},
    {AMB_EFORBIDDEN, "Forbidden", &PyExc_PermissionError},
    {AMB_ELIMIT, "Limit", NULL},
    {AMB_ETOOLARGE, "TooLarge", &PyExc_ValueError},
    {AMB_ENOTFOUND, "NotFound", &PyExc_LookupError},
    {AMB_EKIND, "Kind", &PyExc_TypeError},
    {AMB_ENORESPONDERS, "NoResponders", NULL},
    {AMB_EREJECTED, "Rejected", NULL},
    {AMB_EEXPIRED, "Expired", NULL},
    {AMB_ESTALE, "Stale", NULL},
    {AMB_ECANCELED, "Canceled", NULL},
    {AMB_ECUDA, "Cuda", NULL},
    {AMB_EUNKNOWN, "Unknown", NULL},
    {AMB_EUNREACHABLE, "Unreachable", &PyExc_ConnectionError},
    {AMB_EAUTH, "Auth", &PyExc_PermissionError},
    {AMB_EVERSION, "Version", NULL},
    {AMB_EBUSY, "Busy", NULL},
    {AMB_ELOST, "Lost", &PyExc_ConnectionError},
    {AMB_EPROTO, "Protocol", &PyExc_ConnectionError},
    {AMB_EKICKED, "Kicked", &PyExc_ConnectionError},
    {AMB_EDISASSOC, "Disassociated", NULL},
    {AMB_ECLOSED, "Closed", NULL},
    {AMB_EFORKED, "Forked", NULL},
    {AMB_EUCX, "Ucx", NULL},
    {AMB_EINTERNAL, "Internal", NULL},
};
#define CLASSES (sizeof(classes) / sizeof(classes[0]))
_Static_assert(CLASSES <= AMB_PY_ERRORS_MAX, "room for each class");

static const char *const scopes[] = {"none", "call", "message", "session", "process"};

/* Fields of an exception that was not raised here: the package's own, or a program's. */
static PyObject *said_of(enum amb_status status)
{
    return Py_BuildValue("{s:i,s:s,s:s}", "status", (int)status, "scope",
                         scopes[amb_status_scope(status)], "text", amb_strerror(status));
}

static PyObject *make(const struct amb_py_state *state, const struct class *class)
{
    char name[64];
    (void)PyOS_snprintf(name, sizeof(name), "ambroker.%s", class->name);
    PyObject *bases = class->builtin != NULL ? PyTuple_Pack(2, state->error, *class->builtin)
                                             : PyTuple_Pack(1, state->error);
    PyObject *said = said_of(class->status);
    PyObject *made = NULL;
    if (bases != NULL && said != NULL) {
        made = PyErr_NewExceptionWithDoc(name, amb_strerror(class->status), bases, said);
    }
    Py_XDECREF(said);
    Py_XDECREF(bases);
    return made;
}

int amb_py_errors_init(PyObject *module, struct amb_py_state *state)
{
    PyObject *said = said_of(AMB_EINTERNAL);
    state->error =
        said != NULL
            ? PyErr_NewExceptionWithDoc(
                  "ambroker.Error", "A call of libamb has failed: status, scope, text.", NULL, said)
            : NULL;
    Py_XDECREF(said);
    if (state->error == NULL || PyModule_AddObjectRef(module, "Error", state->error) != 0) {
        return -1;
    }
    for (size_t i = 0; i < CLASSES; i++) {
        state->errors[i] = make(state, &classes[i]);
        if (state->errors[i] == NULL ||
            PyModule_AddObjectRef(module, classes[i].name, state->errors[i]) != 0) {
            return -1;
        }
    }
    state->held_warning = PyErr_NewExceptionWithDoc(
        "ambroker.HeldWarning", "A reader waits while it holds all its credit itself.",
        PyExc_RuntimeWarning, NULL);
    return state->held_warning != NULL
               ? PyModule_AddObjectRef(module, "HeldWarning", state->held_warning)
               : -1;
}

/* Steals value. */
static bool set(PyObject *exception, const char *name, PyObject *value)
{
    bool is_set = value != NULL && PyObject_SetAttrString(exception, name, value) == 0;
    Py_XDECREF(value);
    return is_set;
}

PyObject *amb_py_raise(const struct amb_py_state *state, enum amb_status status, const char *text)
{
    PyObject *class = state->error;
    for (size_t i = 0; i < CLASSES; i++) {
        class = classes[i].status == status ? state->errors[i] : class;
    }
    text = text != NULL && text[0] != '\0' ? text : amb_strerror(status);
    PyObject *exception = PyObject_CallFunction(class, "s", text);
    if (exception != NULL && set(exception, "status", PyLong_FromLong(status)) &&
        set(exception, "scope", PyUnicode_FromString(scopes[amb_status_scope(status)])) &&
        set(exception, "text", PyUnicode_FromString(text))) {
        PyErr_SetObject(class, exception);
    }
    Py_XDECREF(exception);
    return NULL;
}

PyObject *amb_py_raise_of(const struct amb_py_state *state, enum amb_status status,
                          const struct amb_conn *conn)
{
    struct amb_error error = amb_last_error(conn);
    return amb_py_raise(state, status, error.status == status ? error.text : NULL);
}

PyObject *amb_py_take_raised(void)
{
    PyObject *type, *exception, *trace;
    PyErr_Fetch(&type, &exception, &trace);
    PyErr_NormalizeException(&type, &exception, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return exception;
}
