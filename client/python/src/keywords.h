/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keywords as fields of libamb's structs of options: a table each, so that every field is one. A
 * keyword that is None is as one that is not given.
 * Threads: with the GIL. Memory: texts are the keywords' own.
 */
#pragma once

#include "client/python/src/state.h"

#define AMB_PY_BACKOFFS_MAX 16u

/* Options of amb_subscribe, with what they point to, and a CUDA stream, which is none of libamb's.
 */
struct amb_py_sub_keywords {
    struct amb_sub_options options;
    void *stream;
    int64_t backoff_ns[AMB_PY_BACKOFFS_MAX];
};

/* keywords: a dict, or NULL. False: an exception is raised, which names what is wrong. */
bool amb_py_conn_keywords(PyObject *keywords, struct amb_options *out);
bool amb_py_pub_keywords(PyObject *keywords, struct amb_pub_options *out);
bool amb_py_sub_keywords(PyObject *keywords, struct amb_py_sub_keywords *out);
/* One text. NULL: an exception is raised, for a NUL in it too. */
const char *amb_py_text(PyObject *value, const char *what);
