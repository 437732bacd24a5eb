/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/message_acts.h"

#include "client/python/src/errors.h"
#include "client/python/src/keywords.h"
#include "client/python/src/message.h"
#include "client/python/src/source.h"
#include "client/python/src/wait.h"

static PyObject *answer(PyObject *message, enum amb_status status)
{
    return status == AMB_OK ? Py_NewRef(Py_None)
                            : amb_py_raise(amb_py_message_of(message)->state, status, NULL);
}

PyObject *amb_py_message_ack(PyObject *message, PyObject *unused)
{
    (void)unused;
    struct amb_msg *msg = amb_py_message_get(message);
    return msg != NULL ? answer(message, amb_msg_ack(msg)) : NULL;
}

PyObject *amb_py_message_in_progress(PyObject *message, PyObject *unused)
{
    (void)unused;
    struct amb_msg *msg = amb_py_message_get(message);
    return msg != NULL ? answer(message, amb_msg_in_progress(msg)) : NULL;
}

PyObject *amb_py_message_nak(PyObject *message, PyObject *const *args, Py_ssize_t count)
{
    int64_t delay_ns = count > 0 && args[0] != Py_None ? amb_py_timeout(args[0]) : 0;
    struct amb_msg *msg = delay_ns >= 0 ? amb_py_message_get(message) : NULL;
    return msg != NULL ? answer(message, amb_msg_nak(msg, delay_ns)) : NULL;
}

PyObject *amb_py_message_term(PyObject *message, PyObject *const *args, Py_ssize_t count)
{
    struct amb_msg *msg = amb_py_message_get(message);
    const char *reason = NULL;
    if (msg == NULL ||
        (count > 0 && args[0] != Py_None && (reason = amb_py_text(args[0], "reason")) == NULL)) {
        return NULL;
    }
    return answer(message, amb_msg_term(msg, reason));
}

/* ---- calls that wait ---- */

/* Arguments may run Python, as numbers and buffers of a class of its own do, and that may release
 * the message. So each call asks for it when they have been read. */

struct act {
    struct amb_msg *msg;
    uint64_t offset;
    void *to;
    size_t len;
    const struct amb_out *out;
};

static enum amb_status fetch_once(void *arg, int64_t timeout_ns)
{
    const struct act *act = arg;
    return amb_msg_fetch(act->msg, timeout_ns);
}

static enum amb_status read_once(void *arg, int64_t timeout_ns)
{
    const struct act *act = arg;
    return amb_msg_read(act->msg, act->offset, act->to, act->len, timeout_ns);
}

static enum amb_status reply_once(void *arg, int64_t timeout_ns)
{
    const struct act *act = arg;
    return amb_reply_post(act->msg, act->out, timeout_ns);
}

/* A message needs no gate: it is valid after every close. It holds a reference meanwhile, for
 * another thread may release it. */
static bool run(PyObject *message, struct act *act,
                enum amb_status (*once)(void *arg, int64_t timeout_ns), int64_t timeout_ns)
{
    bool is_raised;
    const struct amb_py_call call = {.run = once, .arg = act, .is_slow = true};
    (void)amb_msg_ref(act->msg);
    enum amb_status status = amb_py_wait(NULL, &call, timeout_ns, &is_raised);
    amb_msg_release(act->msg);
    if (status != AMB_OK && !is_raised) {
        (void)amb_py_raise(amb_py_message_of(message)->state, status, NULL);
    }
    return status == AMB_OK;
}

PyObject *amb_py_message_fetch(PyObject *message, PyObject *const *args, Py_ssize_t count)
{
    int64_t timeout_ns = count > 0 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    struct act act = {.msg = timeout_ns >= 0 ? amb_py_message_get(message) : NULL};
    return act.msg != NULL && run(message, &act, fetch_once, timeout_ns) ? Py_NewRef(Py_None)
                                                                         : NULL;
}

/* Memory of the caller's: a writable buffer, or a GPU's by its array interface. False: an exception
 * is raised. */
static bool take_target(struct amb_py_source *target, struct amb_py_state *state, PyObject *into)
{
    bool is_buffer = PyObject_CheckBuffer(into);
    if (!amb_py_source_init(target, state, is_buffer ? NULL : into, NULL)) {
        return false;
    }
    if (is_buffer) {
        if (PyObject_GetBuffer(into, &target->hold.view, PyBUF_WRITABLE) != 0) {
            return false;
        }
        target->hold.has_view = true;
        target->out.data = target->hold.view.buf;
        target->out.len = (size_t)target->hold.view.len;
    }
    return true;
}

static PyObject *read_into(PyObject *message, struct act *act, PyObject *into, size_t most,
                           int64_t timeout_ns)
{
    struct amb_py_source target;
    PyObject *result = NULL;
    if (take_target(&target, amb_py_message_of(message)->state, into)) {
        act->to = (void *)(uintptr_t)target.out.data;
        act->len = most;
        if (target.out.len < most) {
            PyErr_Format(PyExc_ValueError, "into: %zu bytes are too few for %zu", target.out.len,
                         most);
        } else if ((act->msg = amb_py_message_get(message)) != NULL &&
                   run(message, act, read_once, timeout_ns)) {
            result = PyLong_FromSize_t(most);
        }
    }
    amb_py_source_fini(&target);
    return result;
}

PyObject *amb_py_message_read(PyObject *message, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"offset", "size", "into", "timeout", NULL};
    Py_ssize_t offset = 0, wanted = 0;
    PyObject *size = Py_None, *into = Py_None, *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|nO$OO:read", AMB_PY_NAMES(names), &offset,
                                     &size, &into, &timeout)) {
        return NULL;
    }
    int64_t timeout_ns = amb_py_timeout(timeout);
    if (timeout_ns >= 0 && size != Py_None) {
        wanted = PyNumber_AsSsize_t(size, PyExc_ValueError);
    }
    struct act act = {.msg = PyErr_Occurred() == NULL ? amb_py_message_get(message) : NULL};
    if (act.msg == NULL) {
        return NULL;
    }
    Py_ssize_t whole = (Py_ssize_t)amb_msg_size(act.msg);
    wanted = size == Py_None ? whole - offset : wanted;
    if (offset < 0 || offset > whole || wanted < 0 || wanted > whole - offset) {
        PyErr_Format(PyExc_ValueError, "the message has %zd bytes", whole);
        return NULL;
    }
    act.offset = (uint64_t)offset;
    if (into != Py_None) {
        return read_into(message, &act, into, (size_t)wanted, timeout_ns);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, wanted); /* Nobody else has it yet. */
    if (bytes == NULL) {
        return NULL;
    }
    act.to = PyBytes_AsString(bytes);
    act.len = (size_t)wanted;
    if (!run(message, &act, read_once, timeout_ns)) {
        Py_CLEAR(bytes);
    }
    return bytes;
}

PyObject *amb_py_message_reply(PyObject *message, PyObject *args, PyObject *keywords)
{
    PyObject *data, *result = NULL;
    int64_t timeout_ns = AMB_FOREVER;
    struct amb_py_source source;
    struct act act = {.out = &source.out};
    if (!PyArg_ParseTuple(args, "O:reply", &data)) {
        return NULL;
    }
    if (amb_py_source_read(&source, amb_py_message_of(message)->state, data, keywords,
                           &timeout_ns) &&
        (act.msg = amb_py_message_get(message)) != NULL &&
        run(message, &act, reply_once, timeout_ns)) {
        result = Py_NewRef(Py_None);
    }
    amb_py_source_fini(&source);
    return result;
}
