/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to one topic.
 * Threads: with the GIL. Memory: Python's.
 */
#pragma once

#include "client/python/src/state.h"

/* amb_pub_close, as an amb_py_handle_fn. */
enum amb_status amb_py_publisher_end(void *pub, int64_t timeout_ns);
/* Gives buffers back that were lent to posts: all of these. */
void amb_py_loans_end(struct amb_py_loan *loans);
/* Ends orphans, which are publishers whose objects are gone, once the link reads nothing of theirs.
 * The caller is not inside the session's gate, for this may run Python. */
void amb_py_orphans_look(struct amb_py_session *session);
/* Where its leases are. */
void amb_py_publisher_set_lease_mem(PyObject *publisher, enum amb_mem mem, int32_t device);
void amb_py_publisher_lease_mem(PyObject *publisher, enum amb_mem *mem, int32_t *device);
/* NULL: an exception is raised. */
PyTypeObject *amb_py_publisher_type(PyObject *module);
