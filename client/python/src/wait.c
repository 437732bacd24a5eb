/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/wait.h"

#include <math.h>
#include <time.h>

/* A signal or a close is seen within so long; ten wakes a second cost an idle reader nothing. */
#define SLICE_NS (100 * AMB_MS)
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

static enum amb_status run_free(const struct amb_py_call *call, int64_t timeout_ns)
{
    PyThreadState *thread = PyEval_SaveThread();
    enum amb_status status = call->run(call->arg, timeout_ns);
    PyEval_RestoreThread(thread);
    return status;
}

enum amb_status amb_py_wait(const struct amb_py_handle *handle, const struct amb_py_call *call,
                            int64_t timeout_ns, bool *is_raised)
{
    *is_raised = false;
    enum amb_status status =
        call->is_slow ? run_free(call, AMB_NOWAIT) : call->run(call->arg, AMB_NOWAIT);
    if (status != AMB_EAGAIN || timeout_ns == AMB_NOWAIT) {
        return status;
    }
    int64_t begin = now_ns(), passed = 0;
    while (passed < timeout_ns) {
        int64_t left = timeout_ns - passed;
        status = run_free(call, left < SLICE_NS ? left : SLICE_NS);
        if (status != AMB_ETIMEDOUT) {
            return status;
        }
        if (PyErr_CheckSignals() != 0) {
            *is_raised = true;
            return AMB_EINTERNAL;
        }
        if (amb_gate_is_closed(&handle->gate) || amb_gate_is_closed(&handle->session->gate)) {
            return AMB_ECLOSED;
        }
        passed = now_ns() - begin;
    }
    return AMB_ETIMEDOUT;
}

bool amb_py_await_gate(struct amb_gate *gate)
{
    bool is_empty = amb_gate_await(gate, 0);
    while (!is_empty) {
        PyThreadState *thread = PyEval_SaveThread();
        is_empty = amb_gate_await(gate, SLICE_NS);
        PyEval_RestoreThread(thread);
        if (!is_empty && PyErr_CheckSignals() != 0) {
            return false;
        }
    }
    return true;
}
