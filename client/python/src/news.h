/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events and answers, from libamb's callbacks to Python. A callback runs inside amb_poll, on any
 * thread and without the GIL, and puts its words down here. A thread with the GIL fetches them.
 *
 * Threads: a lock of its own. Memory: 64 events a session, the oldest goes; a request's share is
 * freed by whichever comes last, its answer or the end of its object.
 */
#pragma once

#include "client/python/src/state.h"

/* A request under way. */
struct amb_py_asking {
    struct amb_py_session *session;
    struct amb_py_asking *next; /* in news.done */
    PyObject *object;           /* its Pending, not counted; NULL: gone */
    struct amb_msg *reply;
    enum amb_status status;
    bool is_done;
};

void amb_py_news_init(struct amb_py_news *news);
/* With the GIL. */
void amb_py_news_fini(struct amb_py_news *news);
/* on_event of libamb; arg: the session. */
void amb_py_on_event(struct amb_conn *conn, const struct amb_event *event, void *arg);
/* on_reply of libamb; arg: the request. */
void amb_py_on_reply(enum amb_status status, struct amb_msg *reply, void *arg);
/* The object of a request is gone. */
void amb_py_asking_drop(struct amb_py_asking *asking);
/* Runs callbacks that are due, and calls the hook where there is something to fetch. False: it has
 * raised an exception. Inside the session's gate. It does nothing once the program has the
 * descriptor: that would be unreadable afterwards, and a program that sleeps on it would miss them.
 */
bool amb_py_news_look(struct amb_py_session *session);
/* (events, Pendings that are done): all that have come since. NULL: an exception is raised. */
PyObject *amb_py_news_take(const struct amb_py_state *state, struct amb_py_session *session);
/* Events of which nobody has heard: there were more than AMB_PY_EVENTS_MAX. */
uint64_t amb_py_news_dropped(struct amb_py_session *session);
/* call(f, arg): what f raises goes to sys.unraisablehook, unless it is to end the program. */
PyObject *amb_py_call(PyObject *module, PyObject *args);
/* The type of events. */
PyTypeObject *amb_py_event_type(PyObject *module);
