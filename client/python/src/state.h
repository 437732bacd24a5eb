/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one import of the extension, and the objects that it makes. Each object has a
 * pointer to the state, which its type keeps alive.
 *
 *   Connection ── session ◄── Publisher, Subscription        Message: alone
 *
 * Threads: objects are used with the GIL; a session by calls that have given it up, inside its
 * gate. Memory: Python's, and a session, counted.
 */
#pragma once

#include "client/python/src/gate.h"
#include "client/python/src/python.h"

#include <amb/amb.h>
#include <pthread.h>
#include <sys/types.h>

#define AMB_PY_ERRORS_MAX 40

struct amb_py_state {
    PyObject *error;                     /* the class of all */
    PyObject *errors[AMB_PY_ERRORS_MAX]; /* in the order of the table in errors.c */
    PyObject *held_warning;              /* the class */
    PyTypeObject *connection, *publisher, *subscription, *message, *bytes, *lease, *pending, *event;
    PyTypeObject *unflagged;
};

#define AMB_PY_EVENTS_MAX 64u

struct amb_py_told {
    struct amb_event event;
    char text[128];
};

/* The words of libamb's callbacks, until a thread that has the GIL fetches them; see news.h. */
struct amb_py_news {
    pthread_mutex_t lock;
    uint32_t first, count;
    uint64_t dropped;
    struct amb_py_asking *done; /* requests that are answered, the newest first */
    PyObject *hook;             /* called where there are some; NULL: nobody */
    struct amb_py_told told[AMB_PY_EVENTS_MAX];
};

/* A connection, of which publishers and subscriptions know when it is closed. */
struct amb_py_session {
    struct amb_gate gate; /* calls on it, and on all that it has */
    _Atomic uint32_t refs;
    pid_t pid;
    bool is_ending;  /* its close flushes, which its gate does not end */
    bool is_watched; /* the program has its descriptor: polls are its own */
    bool is_over;    /* libamb has nothing of it any more */
    bool is_hasty;   /* its close waits for no link that still reads posted buffers */
    struct amb_conn *conn;
    struct amb_py_loan *loans; /* of publishers that are gone; the link may still read these */
    struct amb_py_news news;
};

/* A publisher or a subscription. A call is inside both gates. */
struct amb_py_handle {
    PyObject_HEAD struct amb_py_state *state;
    struct amb_py_session *session;
    struct amb_gate gate;
    _Atomic(void *) handle; /* NULL: closed */
};
