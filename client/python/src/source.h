/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message on its way out: from any array-like, and the fields that go with it.
 *
 *   exact bytes ─ Message (forwarded) ─ buffer protocol ─ __dlpack__ ─ __cuda_array_interface__
 *
 * The first that fits is taken. Any dense order of axes goes as it lies; nothing is copied here.
 * Threads: with the GIL. Memory: holds what it was made from, until _fini.
 */
#pragma once

#include "client/python/src/state.h"

#define AMB_PY_PROPS_MAX 255u

/* References that keep the bytes where they are. */
struct amb_py_hold {
    Py_buffer view;
    bool has_view;
    PyObject *owner;     /* a capsule or an array; NULL: none */
    struct amb_msg *msg; /* of a Message; NULL: none */
};

struct amb_py_source {
    struct amb_out out;
    struct amb_tensor tensor;
    struct amb_py_hold hold;
    PyObject *kept; /* names and values of properties; NULL: none */
    bool is_device;
    struct amb_prop props[AMB_PY_PROPS_MAX];
};

/* data: NULL: none, as of a lease. stream: NULL or None: the default one. False: an exception is
 * raised. _fini in both cases. */
bool amb_py_source_init(struct amb_py_source *source, struct amb_py_state *state, PyObject *data,
                        PyObject *stream);
/* The same with the stream and the fields of a call's keywords: a dict, or NULL.
 *   timeout_ns  set where `timeout` is one of them; NULL: the call has none */
bool amb_py_source_read(struct amb_py_source *source, struct amb_py_state *state, PyObject *data,
                        PyObject *keywords, int64_t *timeout_ns);
/* key, props, content_type, ttl, expect_seq. False: an exception is raised, also for other names.
 * The value must stay until _fini. */
bool amb_py_source_field(struct amb_py_source *source, const char *name, PyObject *value);
void amb_py_source_fini(struct amb_py_source *source);
void amb_py_hold_fini(struct amb_py_hold *hold);
/* A CUDA stream from an int, an object of a library's, or None. False: an exception is raised. */
bool amb_py_stream(PyObject *stream, void **out);
