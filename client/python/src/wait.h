/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may wait: first without waiting and with the GIL, then in slices without it. Between
 * two slices signals and closes are looked at.
 * Threads: with the GIL, which is given up meanwhile. Memory: none.
 */
#pragma once

#include "client/python/src/state.h"

#include <sys/types.h>

/* Give the GIL up, and take it again. Calls of libamb that wait in between may ask for signals. */
void amb_py_release_gil(void);
void amb_py_take_gil(void);
/* A call came through, and meanwhile a signal has raised an exception: its result goes first, the
 * exception comes after it. */
void amb_py_put_off(enum amb_status status);
/* Between calls of which Python sees one. False: an exception that this thread has put off is
 * raised now. */
bool amb_py_raise_put_off(void);
/* options.is_interrupted: a signal has raised an exception, or the session is being closed.
 *   arg  the session */
int amb_py_is_interrupted(void *arg);

/* interruptible(call, is_over): what call() gives; its waits end with InterruptedError once
 * is_over() is true. For threads, which signals do not reach. */
PyObject *amb_py_interruptible(PyObject *module, PyObject *args);

/* Seconds, or None for ever, as libamb takes them. -1: TypeError or ValueError is raised. */
int64_t amb_py_timeout(PyObject *seconds);

struct amb_py_call {
    /* One call of libamb, without the GIL unless timeout_ns is AMB_NOWAIT. */
    enum amb_status (*run)(void *arg, int64_t timeout_ns);
    void *arg;
    bool is_slow;    /* it moves so many bytes that others should run meanwhile */
    bool only_waits; /* a first look without waiting says nothing */
    bool may_idle;   /* it may wait for hours */
    /* Called where it has waited for a second, now and then. False: an exception is raised. */
    bool (*look)(void *arg);
    /* True: the wait ends with EAGAIN. NULL: it never does so. */
    bool (*turns_back)(void *arg);
};
/* Is this thread inside that gate already? Then a close of its own handler would wait for ever. */
bool amb_py_is_inside(const struct amb_gate *gate);
/* The caller is inside the handle's gates; NULL: of a message. *is_raised: an exception is, by a
 * signal. Else the answer: ECLOSED where the handle is being closed. */
enum amb_status amb_py_wait(const struct amb_py_handle *handle, const struct amb_py_call *call,
                            int64_t timeout_ns, bool *is_raised);
/* Waits until nobody is inside a closed gate of that process. False: a signal has raised an
 * exception. */
bool amb_py_await_gate(struct amb_gate *gate, pid_t pid);
