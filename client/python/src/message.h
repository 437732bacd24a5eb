/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A received message: its life, and its payload as an array of other libraries.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/array.h"
#include "client/python/src/state.h"

struct amb_py_message {
    PyObject_HEAD struct amb_py_state *state;
    struct amb_msg *msg; /* NULL: released */
    void *stream;        /* of a GPU: work that reads it is put there */
    Py_ssize_t views;
    bool is_described; /* array says what views are */
    bool is_trusted;   /* its pickle may be loaded */
    struct amb_py_array array;
};

static inline struct amb_py_message *amb_py_message_of(PyObject *object)
{
    return (struct amb_py_message *)(void *)object;
}

/* Takes the message. NULL: an exception is raised, and the message released. */
PyObject *amb_py_message_new(struct amb_py_state *state, struct amb_msg *msg, void *stream);
/* Its pickle may be loaded. */
void amb_py_message_trust(PyObject *message);
/* NULL: an exception is raised, for it has been released. */
struct amb_msg *amb_py_message_get(PyObject *object);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_message_type(PyObject *module);
/* The flat bytes of a message. */
PyTypeObject *amb_py_bytes_type(PyObject *module);
