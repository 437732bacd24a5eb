/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/message_fields.h"

#include "client/python/src/keywords.h"
#include "client/python/src/message.h"
#include "client/python/src/names.h"

#include <string.h>

static PyObject *text_of(const char *text)
{
    return text != NULL ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape")
                        : Py_NewRef(Py_None);
}

static PyObject *props_of(const struct amb_msg *msg)
{
    PyObject *props = PyDict_New();
    struct amb_prop prop;
    for (size_t i = 0; props != NULL && amb_msg_prop_at(msg, i, &prop) == AMB_OK; i++) {
        PyObject *name = text_of(prop.name);
        PyObject *value = PyBytes_FromStringAndSize(prop.value, (Py_ssize_t)prop.len);
        if (name == NULL || value == NULL || PyDict_SetItem(props, name, value) != 0) {
            Py_CLEAR(props);
        }
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return props;
}

PyObject *amb_py_message_field(PyObject *message, void *field)
{
    const struct amb_msg *msg = amb_py_message_get(message);
    enum amb_loss why = AMB_LOSS_NONE;
    if (msg == NULL) {
        return NULL;
    }
    switch ((enum amb_py_field)(uintptr_t)field) {
    case AMB_PY_TOPIC:
        return text_of(amb_msg_topic(msg));
    case AMB_PY_KEY:
        return text_of(amb_msg_key(msg));
    case AMB_PY_CONTENT_TYPE:
        return text_of(amb_msg_content_type(msg));
    case AMB_PY_PATH:
        return text_of(amb_msg_path(msg));
    case AMB_PY_SEQ:
        return PyLong_FromUnsignedLongLong(amb_msg_seq(msg));
    case AMB_PY_TIME_NS:
        return PyLong_FromLongLong(amb_msg_time(msg));
    case AMB_PY_DELIVERIES:
        return PyLong_FromUnsignedLong(amb_msg_deliveries(msg));
    case AMB_PY_LOST:
        return PyLong_FromUnsignedLongLong(amb_msg_lost(msg, NULL));
    case AMB_PY_LOST_WHY:
        return amb_msg_lost(msg, &why) != 0 ? text_of(amb_py_loss_name(why)) : Py_NewRef(Py_None);
    case AMB_PY_WANTS_REPLY:
        return PyBool_FromLong(amb_msg_wants_reply(msg));
    case AMB_PY_PRIORITY:
        return text_of(amb_py_priority_name(amb_msg_priority(msg)));
    case AMB_PY_MEM:
        return text_of(amb_py_mem_name(amb_msg_mem(msg)));
    case AMB_PY_DEVICE:
        return PyLong_FromLong(amb_msg_device(msg));
    case AMB_PY_PROPS:
        return props_of(msg);
    case AMB_PY_SUBSCRIPTION:
        return PyLong_FromVoidPtr(amb_msg_sub(msg));
    }
    return NULL;
}

PyObject *amb_py_message_prop(PyObject *message, PyObject *const *args, Py_ssize_t count)
{
    const struct amb_msg *msg = amb_py_message_get(message);
    if (msg == NULL || count < 1 || count > 2) {
        if (msg != NULL) {
            PyErr_SetString(PyExc_TypeError, "prop(name, default=None)");
        }
        return NULL;
    }
    size_t len = 0;
    const char *name = amb_py_text(args[0], "the name of a property");
    const void *value = name != NULL ? amb_msg_prop(msg, name, &len) : NULL;
    if (name == NULL) {
        return NULL;
    }
    if (value == NULL) {
        return Py_NewRef(count == 2 ? args[1] : Py_None);
    }
    return PyBytes_FromStringAndSize(value, (Py_ssize_t)len);
}
