/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publisher: messages to one topic. A posted buffer is held until libamb has settled it.
 */
#include "client/python/src/publisher.h"

#include "client/python/src/errors.h"
#include "client/python/src/handle.h"
#include "client/python/src/lease.h"
#include "client/python/src/names.h"
#include "client/python/src/source.h"
#include "client/python/src/wait.h"

#include <stdlib.h>
#include <string.h>

/* From here on a copy gives the GIL up. */
#define SLOW_BYTES 65536
/* Each batch takes so many, whatever the broker says of batches. A larger message may be a batch of
 * its own. amb_pub_send would wait for its link with the GIL; amb_pub_copy copies it. */
#define BATCH_BYTES 2048

/* The buffer that one post has lent. */
struct amb_py_loan {
    struct amb_py_loan *next;
    uint64_t seq;
    struct amb_py_hold hold;
    struct amb_pub *orphan; /* of its oldest loan alone: a publisher that the session has to end */
};

struct publisher {
    struct amb_py_handle handle; /* first */
    struct amb_py_loan *oldest, *newest;
    bool is_hasty; /* a close of it was given up: its end waits for no link either */
    enum amb_mem lease_mem;
    int32_t lease_device;
};

static struct amb_pub *pub_of(struct amb_py_handle *self)
{
    return atomic_load_explicit(&self->handle, memory_order_acquire);
}

/* ---- send ---- */

struct sending {
    struct amb_pub *pub;
    struct amb_py_source *source;
    uint64_t seq;
    bool is_lent, has_fields;
};

static enum amb_status send_once(void *arg, int64_t timeout_ns)
{
    struct sending *sending = arg;
    const struct amb_out *out = &sending->source->out;
    return sending->is_lent ? amb_pub_post(sending->pub, out, timeout_ns, &sending->seq)
                            : amb_pub_copy(sending->pub, out, timeout_ns, &sending->seq);
}

static enum amb_status send_bytes_once(void *arg, int64_t timeout_ns)
{
    const struct sending *sending = arg;
    const struct amb_out *out = &sending->source->out;
    return amb_pub_send(sending->pub, out->data, out->len, timeout_ns);
}

/* Arguments of send and post. False: an exception is raised. */
static bool read_arguments(PyObject *const *args, Py_ssize_t count, PyObject *names,
                           PyObject **stream, int64_t *timeout_ns)
{
    *timeout_ns = AMB_FOREVER;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "a message, and perhaps a timeout, are wanted");
        return false;
    }
    if (count == 2 && (*timeout_ns = amb_py_timeout(args[1])) < 0) {
        return false;
    }
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "timeout") == 0) {
            *timeout_ns = amb_py_timeout(args[count + i]);
        } else if (PyUnicode_CompareWithASCIIString(name, "stream") == 0) {
            *stream = args[count + i];
        }
    }
    return *timeout_ns >= 0;
}

static bool read_fields(struct amb_py_source *source, PyObject *const *values, PyObject *names)
{
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
        if (name == NULL) {
            return false;
        }
        bool is_known = strcmp(name, "timeout") == 0 || strcmp(name, "stream") == 0;
        if (!is_known && !amb_py_source_field(source, name, values[i])) {
            return false;
        }
    }
    return true;
}

/* AMB_OK, or an exception is raised. */
static enum amb_status send_source(struct amb_py_handle *self, struct sending *sending,
                                   int64_t timeout_ns)
{
    const struct amb_py_source *source = sending->source;
    bool is_slow =
        source->is_device || source->out.forward != NULL || source->out.len >= SLOW_BYTES;
    bool is_bare = !sending->is_lent && !sending->has_fields && source->out.tensor == NULL &&
                   source->out.forward == NULL && (is_slow || source->out.len <= BATCH_BYTES);
    const struct amb_py_call call = {
        .run = is_bare ? send_bytes_once : send_once, .arg = sending, .is_slow = is_slow};
    sending->pub = pub_of(self);
    return amb_py_run(self, &call, timeout_ns);
}

static PyObject *publisher_send(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_py_source source;
    PyObject *stream = NULL, *result = NULL;
    int64_t timeout_ns;
    if (!read_arguments(args, count, names, &stream, &timeout_ns)) {
        return NULL;
    }
    struct sending sending = {.source = &source, .has_fields = names != NULL};
    if (amb_py_source_init(&source, self->state, args[0], stream) &&
        read_fields(&source, args + count, names) &&
        send_source(self, &sending, timeout_ns) == AMB_OK) {
        result = Py_NewRef(Py_None);
    }
    amb_py_source_fini(&source);
    return result;
}

/* ---- post ---- */

static struct publisher *publisher_of(PyObject *object)
{
    return (struct publisher *)(void *)object;
}

void amb_py_publisher_set_lease_mem(PyObject *publisher, enum amb_mem mem, int32_t device)
{
    publisher_of(publisher)->lease_mem = mem;
    publisher_of(publisher)->lease_device = device;
}

void amb_py_publisher_lease_mem(PyObject *publisher, enum amb_mem *mem, int32_t *device)
{
    *mem = publisher_of(publisher)->lease_mem;
    *device = publisher_of(publisher)->lease_device;
}

/* Gives back what is settled. */
static void settle(struct publisher *self, uint64_t settled)
{
    while (self->oldest != NULL && self->oldest->seq <= settled) {
        struct amb_py_loan *loan = self->oldest;
        self->oldest = loan->next;
        self->newest = self->oldest == NULL ? NULL : self->newest;
        amb_py_hold_fini(&loan->hold); /* It may run Python. */
        free(loan);
    }
}

static void settle_known(struct publisher *self)
{
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    if (self->oldest != NULL && amb_py_try_enter(&self->handle)) {
        bool is_known = amb_pub_stat(pub_of(&self->handle), &info) == AMB_OK;
        amb_py_leave(&self->handle); /* Python that runs now may close the connection. */
        settle(self, is_known ? info.settled : 0);
    }
}

static PyObject *publisher_post(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    struct publisher *self = publisher_of(object);
    struct amb_py_source source;
    PyObject *stream = NULL, *result = NULL;
    int64_t timeout_ns;
    struct amb_py_loan *loan = calloc(1, sizeof(*loan));
    if (loan == NULL) {
        return PyErr_NoMemory();
    }
    if (!read_arguments(args, count, names, &stream, &timeout_ns)) {
        free(loan);
        return NULL;
    }
    settle_known(self);
    struct sending sending = {.source = &source, .is_lent = true};
    if (amb_py_source_init(&source, self->handle.state, args[0], stream) &&
        read_fields(&source, args + count, names) &&
        send_source(&self->handle, &sending, timeout_ns) == AMB_OK) {
        loan->seq = sending.seq;
        loan->hold = source.hold; /* It takes them over. */
        memset(&source.hold, 0, sizeof(source.hold));
        if (self->newest != NULL) {
            self->newest->next = loan;
        } else {
            self->oldest = loan;
        }
        self->newest = loan;
        loan = NULL;
        result = PyLong_FromUnsignedLongLong(sending.seq);
    }
    free(loan);
    amb_py_source_fini(&source);
    return result;
}

/* ---- send_many ---- */

/* How many of a sequence have been sent, before an exception or the end. */
static Py_ssize_t send_items(struct amb_py_handle *self, PyObject *items, Py_ssize_t count,
                             int64_t timeout_ns)
{
    struct amb_py_source source;
    struct sending sending = {.source = &source};
    Py_ssize_t sent = 0;
    bool is_good = true;
    while (is_good && sent < count) {
        PyObject *item = PySequence_GetItem(items, sent);
        if (item == NULL) {
            return sent;
        }
        is_good = amb_py_source_init(&source, self->state, item, NULL) &&
                  send_source(self, &sending, timeout_ns) == AMB_OK;
        amb_py_source_fini(&source);
        Py_DECREF(item);
        sent += is_good;
        is_good = is_good && amb_py_raise_put_off();
    }
    return sent;
}

static PyObject *publisher_send_many(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "send_many(messages, timeout=None)");
        return NULL;
    }
    int64_t timeout_ns = count == 2 ? amb_py_timeout(args[1]) : AMB_FOREVER;
    PyObject *items = timeout_ns >= 0 ? PySequence_List(args[0]) : NULL;
    if (items == NULL) {
        return NULL;
    }
    Py_ssize_t wanted = PyList_Size(items), sent = send_items(self, items, wanted, timeout_ns);
    Py_DECREF(items);
    bool is_cut = sent < wanted && PyErr_Occurred() != NULL;
    if (is_cut && sent > 0 &&
        (PyErr_ExceptionMatches(PyExc_TimeoutError) ||
         PyErr_ExceptionMatches(PyExc_BlockingIOError))) {
        PyErr_Clear(); /* The number says it. */
    }
    return PyErr_Occurred() == NULL ? PyLong_FromSsize_t(sent) : NULL;
}

/* ---- the rest ---- */

struct flushing {
    struct amb_pub *pub;
    uint64_t seq; /* 0: not known yet */
};

/* Messages that others publish between two slices are not waited for. */
static enum amb_status flush_once(void *arg, int64_t timeout_ns)
{
    struct flushing *flushing = arg;
    if (flushing->seq == 0) {
        struct amb_pub_info info = AMB_INIT(amb_pub_info);
        (void)amb_pub_stat(flushing->pub, &info);
        flushing->seq = info.posted;
    }
    return amb_pub_flush(flushing->pub, flushing->seq, timeout_ns);
}

static PyObject *publisher_flush(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct flushing flushing = {.pub = pub_of(self)};
    const struct amb_py_call call = {.run = flush_once, .arg = &flushing};
    int64_t timeout_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    if (timeout_ns < 0 || amb_py_run(self, &call, timeout_ns) != AMB_OK) {
        return NULL;
    }
    settle_known(publisher_of(object));
    return Py_NewRef(Py_None);
}

struct subscribers {
    struct amb_pub *pub;
    uint32_t count;
};

static enum amb_status subscribers_once(void *arg, int64_t timeout_ns)
{
    const struct subscribers *wanted = arg;
    return amb_pub_wait_subscribers(wanted->pub, wanted->count, timeout_ns);
}

static PyObject *publisher_wait_subscribers(PyObject *object, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"count", "timeout", NULL};
    struct amb_py_handle *self = amb_py_handle_of(object);
    unsigned wanted = 1;
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|IO:wait_subscribers", AMB_PY_NAMES(names),
                                     &wanted, &timeout)) {
        return NULL;
    }
    int64_t timeout_ns = amb_py_timeout(timeout);
    struct subscribers subscribers = {.pub = pub_of(self), .count = wanted};
    const struct amb_py_call call = {.run = subscribers_once, .arg = &subscribers};
    return timeout_ns >= 0 && amb_py_run(self, &call, timeout_ns) == AMB_OK ? Py_NewRef(Py_None)
                                                                            : NULL;
}

/* A wait for more than there can be is one look at the link. Batches that are due leave. Failures
 * are left to flush. */
static PyObject *publisher_push(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    if (amb_py_try_enter(self)) {
        (void)!amb_pub_wait_subscribers(pub_of(self), UINT32_MAX, AMB_NOWAIT);
        amb_py_leave(self);
    }
    return Py_NewRef(Py_None);
}

static PyObject *publisher_stat(PyObject *object, PyObject *Py_UNUSED(unused))
{
    struct amb_py_handle *self = amb_py_handle_of(object);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    if (!amb_py_enter(self)) {
        return NULL;
    }
    enum amb_status status = amb_pub_stat(pub_of(self), &info);
    amb_py_leave(self);
    if (status != AMB_OK) {
        return amb_py_raise(self->state, status, NULL);
    }
    return Py_BuildValue("{s:z,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:K,s:K}", "blocked",
                         amb_py_blocked_name(info.blocked), "posted", info.posted, "settled",
                         info.settled, "failed", info.failed, "accepted_seq", info.accepted_seq,
                         "inflight_msgs", info.inflight_msgs, "inflight_bytes", info.inflight_bytes,
                         "subscribers", info.subscribers, "leases", info.leases, "leased",
                         info.leased, "staged_bytes", info.staged_bytes);
}

static PyObject *publisher_id(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(pub_of(amb_py_handle_of(object)));
}

enum amb_status amb_py_publisher_end(void *pub, int64_t timeout_ns)
{
    return amb_pub_close(pub, timeout_ns);
}

static enum amb_status await_borrowed(void *pub, int64_t timeout_ns)
{
    return amb_pub_wait_borrowed(pub, timeout_ns);
}

/* Until there is nothing to cancel, and nothing that the link still reads. */
static enum amb_status await_all(void *pub, int64_t timeout_ns)
{
    bool is_under_way = amb_pub_flush(pub, 0, timeout_ns) == AMB_EAGAIN;
    enum amb_status status = amb_pub_wait_borrowed(pub, AMB_NOWAIT);
    return is_under_way && status == AMB_OK && timeout_ns == AMB_NOWAIT ? AMB_EAGAIN : status;
}

static PyObject *publisher_close(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    static const struct amb_py_end ends = {.await = await_borrowed, .end = amb_py_publisher_end};
    struct publisher *self = publisher_of(object);
    if (count > 1) {
        PyErr_SetString(PyExc_TypeError, "close(timeout=None)");
        return NULL;
    }
    int64_t patience_ns = count != 0 ? amb_py_timeout(args[0]) : AMB_FOREVER;
    if (patience_ns < 0) {
        return NULL;
    }
    PyObject *result = amb_py_handle_close(&self->handle, &ends, patience_ns);
    self->is_hasty = pub_of(&self->handle) != NULL;
    if (!self->is_hasty || self->handle.session->is_over) {
        settle(self, UINT64_MAX);
    }
    return result;
}

void amb_py_loans_end(struct amb_py_loan *loans)
{
    struct publisher rest = {.oldest = loans};
    settle(&rest, UINT64_MAX);
}

/* Ends publishers without an object, once the link reads nothing of theirs. Returns their loans.
 * Inside the gate. */
static struct amb_py_loan *end_orphans(struct amb_py_session *session)
{
    struct amb_py_loan **at = &session->loans, *over = NULL;
    while (*at != NULL) {
        struct amb_py_loan *oldest = *at, *newest = oldest;
        while (newest->next != NULL && newest->next->orphan == NULL) {
            newest = newest->next;
        }
        if (oldest->orphan == NULL || await_all(oldest->orphan, AMB_NOWAIT) != AMB_OK) {
            at = &newest->next;
            continue;
        }
        *at = newest->next;
        newest->next = over;
        over = oldest;
        (void)amb_pub_close(oldest->orphan, AMB_NOWAIT);
    }
    return over;
}

void amb_py_orphans_look(struct amb_py_session *session)
{
    if (session->loans != NULL && amb_gate_enter(&session->gate)) {
        struct amb_py_loan *over = end_orphans(session);
        amb_gate_leave(&session->gate);
        amb_py_loans_end(over); /* It may run Python, which may close the connection. */
    }
}

/* Posted messages may still be on their way. The connection keeps the buffers meanwhile: until a
 * later call on it finds that they have left, or until its close. */
static void leave_loans(struct amb_py_session *session, struct amb_py_loan *oldest,
                        struct amb_py_loan *newest, bool has_ended)
{
    if (has_ended || session->is_over) {
        amb_py_loans_end(oldest);
    } else if (oldest != NULL) {
        newest->next = session->loans;
        session->loans = oldest;
    }
}

static void publisher_dealloc(PyObject *object)
{
    static const struct amb_py_end ends = {.await = await_all, .end = amb_py_publisher_end};
    struct publisher *self = publisher_of(object);
    struct amb_py_loan *oldest = self->oldest, *newest = self->newest;
    struct amb_py_session *session = amb_py_session_ref(self->handle.session);
    if (oldest != NULL) {
        oldest->orphan = pub_of(&self->handle);
    }
    /* Sent messages shall leave. */
    bool has_ended = amb_py_handle_end(&self->handle, &ends, self->is_hasty ? AMB_NOWAIT : AMB_SEC);
    leave_loans(session, oldest, newest, has_ended);
    amb_py_orphans_look(session);
    amb_py_session_drop(session);
}

static PyMethodDef methods[] = {
    {"send", (PyCFunction)(void (*)(void))publisher_send, METH_FASTCALL | METH_KEYWORDS,
     "send(data, timeout=None, *, key=None, props=None, content_type=None, ttl=None, "
     "expect_seq=None, stream=None): publish a copy of bytes, an array or a Message."},
    {"post", (PyCFunction)(void (*)(void))publisher_post, METH_FASTCALL | METH_KEYWORDS,
     "post(data, timeout=None, **fields): publish from where it lies; it must stay as it is until "
     "the sequence that is returned is settled."},
    {"send_many", (PyCFunction)(void (*)(void))publisher_send_many, METH_FASTCALL,
     "send_many(messages, timeout=None): how many were sent before one had no room in time."},
    {"flush", (PyCFunction)(void (*)(void))publisher_flush, METH_FASTCALL,
     "flush(timeout=None): wait until the broker has confirmed all."},
    {"wait_subscribers", (PyCFunction)(void (*)(void))publisher_wait_subscribers,
     METH_VARARGS | METH_KEYWORDS, "wait_subscribers(count=1, timeout=None): wait for so many."},
    {"lease", (PyCFunction)(void (*)(void))amb_py_lease_take, METH_VARARGS | METH_KEYWORDS,
     "lease(shape, code, bits, timeout=None, stream=None): memory of one message."},
    {"push", publisher_push, METH_NOARGS, "push(): what is due leaves, and nothing is waited for."},
    {"stat", publisher_stat, METH_NOARGS, "stat(): its counters, a dict."},
    {"close", (PyCFunction)(void (*)(void))publisher_close, METH_FASTCALL,
     "close(timeout=None): cancel what has not left, wait until the link reads no posted buffer, "
     "and end; flush comes before it. After the timeout the connection keeps these buffers."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"id", publisher_id, NULL, "the number by which events name it; 0: closed", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject *amb_py_publisher_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)publisher_dealloc},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, getters},
                           {0, NULL}};
    PyType_Spec spec = {.name = "ambroker.Publisher",
                        .basicsize = sizeof(struct publisher),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
