/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getters of a message.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

enum amb_py_field {
    AMB_PY_TOPIC,
    AMB_PY_KEY,
    AMB_PY_CONTENT_TYPE,
    AMB_PY_PATH,
    AMB_PY_SEQ,
    AMB_PY_TIME_NS,
    AMB_PY_DELIVERIES,
    AMB_PY_LOST,
    AMB_PY_LOST_WHY,
    AMB_PY_WANTS_REPLY,
    AMB_PY_PRIORITY,
    AMB_PY_MEM,
    AMB_PY_DEVICE,
    AMB_PY_PROPS,
    AMB_PY_SUBSCRIPTION,
};

/* field: which one, of enum amb_py_field. */
PyObject *amb_py_message_field(PyObject *message, void *field);
/* prop(name, default=None) */
PyObject *amb_py_message_prop(PyObject *message, PyObject *const *args, Py_ssize_t count);
