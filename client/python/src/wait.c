/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/wait.h"

#include "client/python/src/errors.h"
#include "client/python/src/news.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A signal or a close is seen within so long. */
#define SLICE_NS (100 * AMB_MS)
/* libamb spins at the begin of each slice. A reader that has waited for more than a second has
 * longer ones, so that it stays below a thousandth of a core. A signal ends a sleep at once; a
 * slice is for one that comes as a sleep begins. Not in amb_py_interruptible: no signal wakes it.
 */
#define LONG_SLICE_NS (200 * AMB_MS)
#define SECONDS_MAX 9e9

int64_t amb_py_timeout(PyObject *seconds)
{
    if (seconds == Py_None) {
        return AMB_FOREVER;
    }
    double value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred() != NULL) {
        return -1;
    }
    if (!(value >= 0.0 && value < SECONDS_MAX)) { /* NaN, too */
        PyErr_SetString(PyExc_ValueError, "a timeout is seconds from 0 up, or None for ever");
        return -1;
    }
    int64_t ns = (int64_t)(value * 1e9);
    return ns == 0 && value > 0.0 ? 1 : ns;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * AMB_SEC + now.tv_nsec;
}

/* Of a thread that has given the GIL up here; NULL: it has it, or it is none of Python's. */
static _Thread_local PyThreadState *without_gil;

void amb_py_release_gil(void)
{
    without_gil = PyEval_SaveThread();
}

void amb_py_take_gil(void)
{
    PyThreadState *thread = without_gil;
    without_gil = NULL;
    PyEval_RestoreThread(thread);
}

/* A pending call of the main thread, which is where signals raise. */
static int raise_late(void *exception)
{
    PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)exception), exception);
    Py_DECREF((PyObject *)exception);
    return -1;
}

static _Thread_local bool has_put_off;

bool amb_py_raise_put_off(void)
{
    bool is_due = has_put_off;
    has_put_off = false;
    return !is_due || Py_MakePendingCalls() == 0;
}

void amb_py_put_off(enum amb_status status)
{
    if (status != AMB_OK || PyErr_Occurred() == NULL) {
        return;
    }
    if (getpid() != (pid_t)syscall(SYS_gettid)) { /* The call was to be given up: nobody waits. */
        if (PyErr_ExceptionMatches(PyExc_InterruptedError)) {
            PyErr_Clear();
        } else {
            PyErr_WriteUnraisable(Py_None);
        }
        return;
    }
    has_put_off = true;
    PyObject *exception = amb_py_take_raised();
    if (Py_AddPendingCall(raise_late, exception) != 0) { /* 32 others wait already. */
        Py_XDECREF(exception);
        PyErr_SetInterrupt();
    }
}

/* The calls that this thread is inside of, where Python may run: handlers, and hooks for events. */
struct inside {
    const struct inside *outer;
    const struct amb_py_session *session; /* NULL: of a message */
    const struct amb_py_handle *handle;   /* or NULL */
};
static _Thread_local const struct inside *innermost;

bool amb_py_is_inside(const struct amb_gate *gate)
{
    bool is_found = false;
    for (const struct inside *at = innermost; at != NULL && !is_found; at = at->outer) {
        is_found = (at->session != NULL && &at->session->gate == gate) ||
                   (at->handle != NULL && &at->handle->gate == gate);
    }
    return is_found;
}

/* Of a thread inside amb_py_interruptible; not counted. */
static _Thread_local PyObject *is_over;

PyObject *amb_py_interruptible(PyObject *module, PyObject *args)
{
    PyObject *call, *question, *outer = is_over;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:interruptible", &call, &question)) {
        return NULL;
    }
    is_over = question;
    PyObject *result = PyObject_CallNoArgs(call);
    is_over = outer;
    return result;
}

/* An exception is raised: by a signal, or because the thread's call is over. */
static bool is_called_off(void)
{
    if (PyErr_CheckSignals() != 0) {
        return true;
    }
    PyObject *answer = is_over != NULL ? PyObject_CallNoArgs(is_over) : Py_NewRef(Py_False);
    bool is_true = answer != NULL && PyObject_IsTrue(answer) != 0;
    Py_XDECREF(answer);
    if (is_true && PyErr_Occurred() == NULL) {
        PyErr_SetString(PyExc_InterruptedError, "the call is not waited for any more");
    }
    return PyErr_Occurred() != NULL;
}

int amb_py_is_interrupted(void *arg)
{
    struct amb_py_session *session = arg;
    if (without_gil == NULL || session->is_hasty) {
        return session->is_hasty;
    }
    if (amb_gate_is_closed(&session->gate) && !session->is_ending) {
        return 1;
    }
    amb_py_take_gil();
    const struct inside here = {.outer = innermost, .session = session};
    innermost = &here;
    bool is_raised =
        is_called_off() || (session->conn != NULL && !amb_py_news_look(session)); /* events, too */
    innermost = here.outer;
    amb_py_release_gil();
    return is_raised;
}

static enum amb_status run_free(const struct amb_py_call *call, int64_t timeout_ns)
{
    amb_py_release_gil();
    enum amb_status status = call->run(call->arg, timeout_ns);
    amb_py_take_gil();
    amb_py_put_off(status);
    return status;
}

static bool is_closed(const struct amb_py_handle *handle)
{
    return handle != NULL &&
           (amb_gate_is_closed(&handle->gate) || amb_gate_is_closed(&handle->session->gate));
}

/* Between two slices: events that are due are told, too. AMB_OK: the wait goes on. */
static enum amb_status look_around(const struct amb_py_handle *handle,
                                   const struct amb_py_call *call, int64_t passed_ns)
{
    bool is_fine = !is_called_off() && (handle == NULL || amb_py_news_look(handle->session));
    if (is_fine && !is_closed(handle) && call->look != NULL && passed_ns >= AMB_SEC) {
        is_fine = call->look(call->arg);
    }
    return !is_fine ? AMB_EINTERNAL : is_closed(handle) ? AMB_ECLOSED : AMB_OK;
}

/* ECANCELED is of a question that was answered by yes: see amb_py_is_interrupted. An exception may
 * also stand beside another failure, which the call has heard of before it turned back. */
static enum amb_status answer(const struct amb_py_handle *handle, enum amb_status status,
                              bool *is_raised)
{
    *is_raised = status != AMB_OK && PyErr_Occurred() != NULL;
    bool is_turned_back = status == AMB_ECANCELED && !*is_raised && is_closed(handle);
    return is_turned_back ? AMB_ECLOSED : status;
}

static enum amb_status wait_in_slices(const struct amb_py_handle *handle,
                                      const struct amb_py_call *call, int64_t timeout_ns,
                                      bool *is_raised)
{
    enum amb_status status;
    int64_t begin = now_ns(), passed = 0;
    while (passed < timeout_ns) {
        int64_t left = timeout_ns - passed;
        bool is_idle = call->may_idle && passed >= AMB_SEC && is_over == NULL;
        int64_t slice = is_idle ? LONG_SLICE_NS : SLICE_NS;
        status = run_free(call, left < slice ? left : slice);
        if (status != AMB_ETIMEDOUT) {
            return answer(handle, status, is_raised);
        }
        passed = now_ns() - begin;
        status = look_around(handle, call, passed);
        if (status != AMB_OK) {
            *is_raised = status == AMB_EINTERNAL;
            return status;
        }
        if (call->turns_back != NULL && call->turns_back(call->arg)) {
            return AMB_EAGAIN;
        }
    }
    return AMB_ETIMEDOUT;
}

enum amb_status amb_py_wait(const struct amb_py_handle *handle, const struct amb_py_call *call,
                            int64_t timeout_ns, bool *is_raised)
{
    *is_raised = false;
    bool looks_first = !call->only_waits || timeout_ns == AMB_NOWAIT;
    enum amb_status status = AMB_EAGAIN;
    if (looks_first && !call->is_slow) {
        status = call->run(call->arg, AMB_NOWAIT);
        if (status != AMB_EAGAIN || timeout_ns == AMB_NOWAIT) {
            return answer(handle, status, is_raised);
        }
    }
    const struct inside here = {
        .outer = innermost, .session = handle != NULL ? handle->session : NULL, .handle = handle};
    innermost = &here;
    if (looks_first && call->is_slow) {
        status = run_free(call, AMB_NOWAIT);
    }
    status = status == AMB_EAGAIN && timeout_ns != AMB_NOWAIT
                 ? wait_in_slices(handle, call, timeout_ns, is_raised)
                 : answer(handle, status, is_raised);
    innermost = here.outer;
    return status;
}

bool amb_py_await_gate(struct amb_gate *gate, pid_t pid)
{
    bool is_empty = amb_gate_await(gate, 0) || getpid() != pid; /* A child has no other threads. */
    while (!is_empty) {
        amb_py_release_gil();
        is_empty = amb_gate_await(gate, SLICE_NS);
        amb_py_take_gil();
        if (!is_empty && PyErr_CheckSignals() != 0) {
            return false;
        }
    }
    return true;
}
