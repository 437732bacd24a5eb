/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/news.h"

#include "client/python/src/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void amb_py_news_init(struct amb_py_news *news)
{
    (void)pthread_mutex_init(&news->lock, NULL);
}

void amb_py_news_fini(struct amb_py_news *news)
{
    Py_CLEAR(news->hook);
    (void)pthread_mutex_destroy(&news->lock);
}

/* ---- callbacks, without the GIL ---- */

void amb_py_on_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    struct amb_py_news *news = &((struct amb_py_session *)arg)->news;
    (void)conn;
    (void)pthread_mutex_lock(&news->lock);
    if (news->count == AMB_PY_EVENTS_MAX) {
        news->first = (news->first + 1) % AMB_PY_EVENTS_MAX;
        news->count--;
        news->dropped++;
    }
    struct amb_py_told *told = &news->told[(news->first + news->count++) % AMB_PY_EVENTS_MAX];
    told->event = *event;
    told->event.text = NULL;
    (void)snprintf(told->text, sizeof(told->text), "%s", event->text);
    (void)pthread_mutex_unlock(&news->lock);
}

void amb_py_on_reply(enum amb_status status, struct amb_msg *reply, void *arg)
{
    struct amb_py_asking *asking = arg;
    struct amb_py_news *news = &asking->session->news;
    (void)pthread_mutex_lock(&news->lock);
    bool is_wanted = asking->object != NULL;
    if (is_wanted) {
        asking->status = status;
        asking->reply = reply != NULL ? amb_msg_ref(reply) : NULL;
        asking->is_done = true;
        asking->next = news->done;
        news->done = asking;
    }
    (void)pthread_mutex_unlock(&news->lock);
    if (!is_wanted) {
        free(asking);
    }
}

/* ---- with the GIL ---- */

void amb_py_asking_drop(struct amb_py_asking *asking)
{
    struct amb_py_news *news = &asking->session->news;
    (void)pthread_mutex_lock(&news->lock);
    asking->object = NULL;
    bool is_done = asking->is_done;
    struct amb_py_asking **at = &news->done;
    while (*at != NULL && *at != asking) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = asking->next;
    }
    (void)pthread_mutex_unlock(&news->lock);
    if (is_done) {
        amb_msg_release(asking->reply);
        free(asking);
    }
}

static bool has_some(struct amb_py_news *news)
{
    (void)pthread_mutex_lock(&news->lock);
    bool has_any = news->count != 0 || news->done != NULL;
    (void)pthread_mutex_unlock(&news->lock);
    return has_any;
}

bool amb_py_news_look(struct amb_py_session *session)
{
    if (session->is_watched) {
        return true;
    }
    (void)amb_poll(session->conn, AMB_NOWAIT); /* Each other call says why it fails. */
    if (session->news.hook == NULL || !has_some(&session->news)) {
        return true;
    }
    PyObject *result = PyObject_CallNoArgs(session->news.hook);
    Py_XDECREF(result);
    return result != NULL;
}

uint64_t amb_py_news_dropped(struct amb_py_session *session)
{
    (void)pthread_mutex_lock(&session->news.lock);
    uint64_t dropped = session->news.dropped;
    (void)pthread_mutex_unlock(&session->news.lock);
    return dropped;
}

static bool take_event(struct amb_py_news *news, struct amb_py_told *out)
{
    (void)pthread_mutex_lock(&news->lock);
    bool has_one = news->count != 0;
    if (has_one) {
        *out = news->told[news->first];
        news->first = (news->first + 1) % AMB_PY_EVENTS_MAX;
        news->count--;
    }
    (void)pthread_mutex_unlock(&news->lock);
    return has_one;
}

/* A new reference to the object of a request that is done; NULL: there is none. */
static PyObject *take_done(struct amb_py_news *news)
{
    (void)pthread_mutex_lock(&news->lock);
    struct amb_py_asking *asking = news->done;
    PyObject *object = NULL;
    if (asking != NULL) {
        news->done = asking->next;
        object = Py_NewRef(asking->object); /* Only a thread with the GIL makes it NULL. */
    }
    (void)pthread_mutex_unlock(&news->lock);
    return object;
}

PyObject *amb_py_call(PyObject *module, PyObject *args)
{
    PyObject *callable, *arg;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:call", &callable, &arg)) {
        return NULL;
    }
    PyObject *result = PyObject_CallFunctionObjArgs(callable, arg, NULL);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_WriteUnraisable(callable);
        return Py_NewRef(Py_None);
    }
    return result;
}

static PyStructSequence_Field fields[] = {
    {"type", "lost, restored, closed, gap, slow, recovered, subscribers, draining, room"},
    {"status", "why: the number of a status"},
    {"loss", "gap: why"},
    {"publisher", "of which publisher: its id, or 0"},
    {"subscription", "of which subscription: its id, or 0"},
    {"count", "gap: messages; subscribers: how many; slow, recovered: not given back"},
    {"seq", "gap: the first sequence after it"},
    {"time_ns", "when, ns since 1970"},
    {"text", "one line for a log"},
    {NULL, NULL},
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]) - 1)

PyTypeObject *amb_py_event_type(PyObject *module)
{
    (void)module;
    PyStructSequence_Desc desc = {.name = "ambroker.Event",
                                  .doc = "What happened to a connection.",
                                  .fields = fields,
                                  .n_in_sequence = (int)FIELDS};
    return PyStructSequence_NewType(&desc);
}

static PyObject *event_new(const struct amb_py_state *state, const struct amb_py_told *told)
{
    const struct amb_event *event = &told->event;
    PyObject *made = PyStructSequence_New(state->event);
    if (made == NULL) {
        return NULL;
    }
    PyObject *values[FIELDS] = {
        PyUnicode_FromString(amb_py_event_name(event->type)),
        PyLong_FromLong(event->status),
        PyUnicode_FromString(amb_py_loss_name(event->loss)),
        PyLong_FromSize_t((size_t)(uintptr_t)event->pub),
        PyLong_FromSize_t((size_t)(uintptr_t)event->sub),
        PyLong_FromUnsignedLongLong(event->count),
        PyLong_FromUnsignedLongLong(event->seq),
        PyLong_FromLongLong(event->time_ns),
        PyUnicode_DecodeUTF8(told->text, (Py_ssize_t)strnlen(told->text, sizeof(told->text)),
                             "replace"),
    };
    bool is_whole = true;
    for (size_t i = 0; i < FIELDS; i++) {
        is_whole = is_whole && values[i] != NULL;
        PyStructSequence_SetItem(made, (Py_ssize_t)i, values[i]); /* Takes it. */
    }
    if (!is_whole) {
        Py_CLEAR(made);
    }
    return made;
}

/* Takes the item. False: an exception is raised. */
static bool append(PyObject *list, PyObject *item)
{
    bool is_in = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return is_in;
}

PyObject *amb_py_news_take(const struct amb_py_state *state, struct amb_py_session *session)
{
    PyObject *events = PyList_New(0), *done = PyList_New(0), *both = NULL, *object;
    struct amb_py_told told;
    bool is_good = events != NULL && done != NULL;
    while (is_good && take_event(&session->news, &told)) {
        is_good = append(events, event_new(state, &told));
    }
    while (is_good && (object = take_done(&session->news)) != NULL) {
        is_good = append(done, object);
    }
    if (is_good) {
        both = PyTuple_Pack(2, events, done);
    }
    Py_XDECREF(events);
    Py_XDECREF(done);
    return both;
}
