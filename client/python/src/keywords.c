/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/keywords.h"

#include "client/python/src/source.h"
#include "client/python/src/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    TEXT,  /* const char * */
    TIME,  /* int64_t of nanoseconds, from seconds */
    COUNT, /* uint64_t, or a size: "64M" */
    SMALL, /* uint32_t */
    FLAG,  /* uint32_t, from a truth value */
    CHOICE /* an enumeration, by name */
};

struct choice {
    const char *name;
    int value;
};

struct keyword {
    const char *name;
    enum kind kind;
    size_t offset;
    const struct choice *choices; /* ends with NULL */
};

/* ---- values ---- */

const char *amb_py_text(PyObject *value, const char *what)
{
    Py_ssize_t len;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: a str is wanted", what);
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(value, &len);
    if (text != NULL && strlen(text) != (size_t)len) {
        PyErr_Format(PyExc_ValueError, "%s: it has a NUL in it", what);
        return NULL;
    }
    return text;
}

/* "64M": a number with K, M, G or T. */
static bool read_size(const char *text, const char *what, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    bool is_number = text[0] >= '0' && text[0] <= '9' && errno == 0;
    bool is_whole = unit != NULL ? end[1] == '\0' : *end == '\0';
    if (!is_number || !is_whole || (value << shift) >> shift != value) {
        PyErr_Format(PyExc_ValueError, "%s: a number, or a size like \"64M\", not \"%s\"", what,
                     text);
        return false;
    }
    *out = value << shift;
    return true;
}

static bool read_count(PyObject *value, const char *what, uint64_t most, uint64_t *out)
{
    if (PyUnicode_Check(value)) {
        const char *text = amb_py_text(value, what);
        if (text == NULL || !read_size(text, what, out)) {
            return false;
        }
    } else {
        PyObject *number = PyNumber_Index(value);
        if (number == NULL) {
            return false;
        }
        *out = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
    }
    if (PyErr_Occurred() != NULL || *out > most) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s: from 0 to %llu", what, (unsigned long long)most);
        return false;
    }
    return true;
}

static bool read_choice(PyObject *value, const char *what, const struct choice *choices, int *out)
{
    const char *name = amb_py_text(value, what);
    if (name == NULL) {
        return false;
    }
    char known[160] = "";
    for (const struct choice *c = choices; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            *out = c->value;
            return true;
        }
        size_t len = strlen(known);
        (void)PyOS_snprintf(known + len, sizeof(known) - len, "%s'%s'", len != 0 ? ", " : "",
                            c->name);
    }
    PyErr_Format(PyExc_ValueError, "%s: one of %s, not '%s'", what, known, name);
    return false;
}

static bool read_time(PyObject *value, const char *what, int64_t *out)
{
    int64_t ns = amb_py_timeout(value);
    if (ns < 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s: seconds from 0 up", what);
        return false;
    }
    *out = ns;
    return true;
}

static bool set(const struct keyword *keyword, PyObject *value, void *options)
{
    void *field = (char *)options + keyword->offset;
    uint64_t number;
    int flag;
    switch (keyword->kind) {
    case TEXT:
        *(const char **)field = amb_py_text(value, keyword->name);
        return *(const char **)field != NULL;
    case TIME:
        return read_time(value, keyword->name, field);
    case COUNT:
        return read_count(value, keyword->name, UINT64_MAX, field);
    case SMALL:
        if (!read_count(value, keyword->name, UINT32_MAX, &number)) {
            return false;
        }
        *(uint32_t *)field = (uint32_t)number;
        return true;
    case FLAG:
        flag = PyObject_IsTrue(value);
        *(uint32_t *)field = flag > 0;
        return flag >= 0;
    case CHOICE:
        return read_choice(value, keyword->name, keyword->choices, field);
    }
    return false;
}

static const struct keyword *find(const struct keyword *table, const char *name)
{
    while (table->name != NULL && strcmp(table->name, name) != 0) {
        table++;
    }
    return table->name != NULL ? table : NULL;
}

/* Those of a table; `other` takes the rest, or is NULL. */
static bool read_all(PyObject *keywords, const struct keyword *table, void *options,
                     bool (*other)(const char *name, PyObject *value, void *options))
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (keywords != NULL && PyDict_Next(keywords, &at, &key, &value)) {
        const char *name = amb_py_text(key, "a keyword");
        if (name == NULL) {
            return false;
        }
        if (value == Py_None) {
            value = NULL;
        }
        const struct keyword *keyword = find(table, name);
        if (keyword != NULL) {
            if (value != NULL && !set(keyword, value, options)) {
                return false;
            }
        } else if (other == NULL || !other(name, value, options)) {
            if (PyErr_Occurred() == NULL) {
                PyErr_Format(PyExc_TypeError, "there is no option '%s'", name);
            }
            return false;
        }
    }
    return true;
}

/* ---- memory ---- */

static const struct choice mems[] = {{"as_sent", AMB_MEM_AS_SENT},      {"host", AMB_MEM_HOST},
                                     {"pinned", AMB_MEM_PINNED},        {"cuda", AMB_MEM_CUDA},
                                     {"managed", AMB_MEM_CUDA_MANAGED}, {NULL, 0}};

/* "cuda:1", "host". False: an exception is raised. */
static bool read_mem(PyObject *value, enum amb_mem *mem, int32_t *device)
{
    const char *text = amb_py_text(value, "mem");
    if (text == NULL) {
        return false;
    }
    char name[16] = "";
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (len < sizeof(name)) {
        memcpy(name, text, len);
        name[len] = '\0';
    }
    uint64_t number = 0;
    if (colon != NULL && !read_size(colon + 1, "mem", &number)) {
        return false;
    }
    if (number > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "mem: no device has the number %s", colon + 1);
        return false;
    }
    PyObject *kind = PyUnicode_FromString(name);
    int which = 0;
    bool is_known = kind != NULL && read_choice(kind, "mem", mems, &which);
    Py_XDECREF(kind);
    if (is_known) {
        *mem = (enum amb_mem)which;
        *device = (int32_t)number;
    }
    return is_known;
}

/* ---- connections ---- */

#define AT(type, field) offsetof(struct type, field)
static const struct choice progresses[] = {
    {"thread", AMB_PROGRESS_THREAD}, {"poll", AMB_PROGRESS_POLL}, {NULL, 0}};

static bool conn_other(const char *name, PyObject *value, void *out)
{
    struct amb_options *options = out;
    if (strcmp(name, "reconnect_attempts") == 0) { /* 0: none; None: for ever */
        uint64_t attempts = 0;
        if (value != NULL && !read_count(value, name, UINT32_MAX - 1, &attempts)) {
            return false;
        }
        options->reconnect_attempts = value == NULL   ? 0
                                      : attempts == 0 ? AMB_NONE
                                                      : (uint32_t)attempts;
        return true;
    }
    if (strcmp(name, "spin") == 0) { /* 0: sleep at once */
        if (value != NULL && !read_time(value, name, &options->spin_ns)) {
            return false;
        }
        options->spin_ns =
            value != NULL && options->spin_ns == 0 ? AMB_SPIN_NEVER : options->spin_ns;
        return true;
    }
    return false;
}

bool amb_py_conn_keywords(PyObject *keywords, struct amb_options *out)
{
    static const struct keyword table[] = {
        {"name", TEXT, AT(amb_options, name), NULL},
        {"credentials", TEXT, AT(amb_options, credentials), NULL},
        {"config", TEXT, AT(amb_options, config), NULL},
        {"ca", TEXT, AT(amb_options, ca), NULL},
        {"server_name", TEXT, AT(amb_options, server_name), NULL},
        {"certificate", TEXT, AT(amb_options, certificate), NULL},
        {"key", TEXT, AT(amb_options, key), NULL},
        {"trusted_network", TEXT, AT(amb_options, trusted_network), NULL},
        {"progress", CHOICE, AT(amb_options, progress), progresses},
        {"connect_timeout", TIME, AT(amb_options, connect_timeout_ns), NULL},
        {"timeout", TIME, AT(amb_options, timeout_ns), NULL},
        {"heartbeat", TIME, AT(amb_options, heartbeat_ns), NULL},
        {"reconnect_min", TIME, AT(amb_options, reconnect_min_ns), NULL},
        {"reconnect_max", TIME, AT(amb_options, reconnect_max_ns), NULL},
        {"retry_first", FLAG, AT(amb_options, retry_first), NULL},
        {"memory_max", COUNT, AT(amb_options, memory_max), NULL},
        {"send_memory_max", COUNT, AT(amb_options, send_memory_max), NULL},
        {NULL, TEXT, 0, NULL},
    };
    *out = (struct amb_options)AMB_INIT(amb_options);
    return read_all(keywords, table, out, conn_other);
}

/* ---- publishers ---- */

static const struct choice confirms[] = {{"none", AMB_CONFIRM_NONE},
                                         {"accepted", AMB_CONFIRM_ACCEPTED},
                                         {"delivered", AMB_CONFIRM_DELIVERED},
                                         {"durable", AMB_CONFIRM_DURABLE},
                                         {NULL, 0}};
static const struct choice priorities[] = {{"normal", AMB_PRIORITY_NORMAL},
                                           {"high", AMB_PRIORITY_HIGH},
                                           {"low", AMB_PRIORITY_LOW},
                                           {NULL, 0}};

static bool pub_other(const char *name, PyObject *value, void *out)
{
    struct amb_pub_options *options = out;
    return strcmp(name, "lease_mem") == 0 &&
           (value == NULL || read_mem(value, &options->lease_mem, &options->device));
}

bool amb_py_pub_keywords(PyObject *keywords, struct amb_pub_options *out)
{
    static const struct keyword table[] = {
        {"name", TEXT, AT(amb_pub_options, name), NULL},
        {"confirm", CHOICE, AT(amb_pub_options, confirm), confirms},
        {"priority", CHOICE, AT(amb_pub_options, priority), priorities},
        {"window_msgs", COUNT, AT(amb_pub_options, window_msgs), NULL},
        {"window_bytes", COUNT, AT(amb_pub_options, window_bytes), NULL},
        {"linger", TIME, AT(amb_pub_options, linger_ns), NULL},
        {NULL, TEXT, 0, NULL},
    };
    *out = (struct amb_pub_options)AMB_INIT(amb_pub_options);
    return read_all(keywords, table, out, pub_other);
}

/* ---- subscriptions ---- */

static const struct choice acks[] = {{"none", AMB_ACK_NONE},
                                     {"explicit", AMB_ACK_EXPLICIT},
                                     {"cumulative", AMB_ACK_CUMULATIVE},
                                     {NULL, 0}};
static const struct choice lazies[] = {{"off", AMB_LAZY_OFF},
                                       {"on", AMB_LAZY_ON},
                                       {"pin", AMB_LAZY_PIN},
                                       {"headers", AMB_LAZY_HEADERS},
                                       {NULL, 0}};
static const struct choice policies[] = {{"drop_oldest", AMB_SLOW_DROP_OLDEST},
                                         {"drop_newest", AMB_SLOW_DROP_NEWEST},
                                         {"latest", AMB_SLOW_LATEST},
                                         {"block", AMB_SLOW_BLOCK},
                                         {"spill", AMB_SLOW_SPILL},
                                         {"disconnect", AMB_SLOW_DISCONNECT},
                                         {NULL, 0}};
static const struct choice tempos[] = {
    {"at_once", AMB_TEMPO_AT_ONCE}, {"original", AMB_TEMPO_ORIGINAL}, {NULL, 0}};
static const struct choice starts[] = {{"new", AMB_START_NEW},
                                       {"last", AMB_START_LAST},
                                       {"last_n", AMB_START_LAST_N},
                                       {"first", AMB_START_FIRST},
                                       {"seq", AMB_START_SEQ},
                                       {"time", AMB_START_TIME},
                                       {NULL, 0}};

static bool read_backoff(PyObject *value, struct amb_py_sub_keywords *out)
{
    PyObject *item, *iterator = PyObject_GetIter(value);
    bool is_good = iterator != NULL;
    uint32_t count = 0;
    while (is_good && (item = PyIter_Next(iterator)) != NULL) {
        is_good =
            count < AMB_PY_BACKOFFS_MAX && read_time(item, "backoff", &out->backoff_ns[count]);
        Py_DECREF(item);
        count++;
    }
    Py_XDECREF(iterator);
    if (!is_good && PyErr_Occurred() == NULL) {
        PyErr_Format(PyExc_ValueError, "backoff: up to %u pauses", AMB_PY_BACKOFFS_MAX);
    }
    out->options.backoff_ns = out->backoff_ns;
    out->options.backoff_count = count;
    return is_good && PyErr_Occurred() == NULL;
}

/* A start by name, or the bytes of position(). */
static bool read_start(PyObject *value, struct amb_sub_options *options)
{
    if (PyBytes_Check(value)) {
        char *position;
        Py_ssize_t len;
        if (PyBytes_AsStringAndSize(value, &position, &len) != 0) {
            return false;
        }
        options->start = AMB_START_POSITION;
        options->position = position;
        options->position_len = (size_t)len;
        return true;
    }
    int start = 0;
    bool is_known = read_choice(value, "start", starts, &start);
    options->start = (enum amb_start)start;
    return is_known;
}

static bool sub_other(const char *name, PyObject *value, void *out)
{
    struct amb_py_sub_keywords *keywords = out;
    if (strcmp(name, "mem") == 0) {
        return value == NULL || read_mem(value, &keywords->options.mem, &keywords->options.device);
    }
    if (strcmp(name, "start") == 0) {
        return value == NULL || read_start(value, &keywords->options);
    }
    if (strcmp(name, "backoff") == 0) {
        return value == NULL || read_backoff(value, keywords);
    }
    return strcmp(name, "stream") == 0 && amb_py_stream(value, &keywords->stream);
}

bool amb_py_sub_keywords(PyObject *keywords, struct amb_py_sub_keywords *out)
{
    static const struct keyword table[] = {
        {"group", TEXT, AT(amb_sub_options, group), NULL},
        {"durable", TEXT, AT(amb_sub_options, durable), NULL},
        {"filter", TEXT, AT(amb_sub_options, filter), NULL},
        {"ack", CHOICE, AT(amb_sub_options, ack), acks},
        {"lazy", CHOICE, AT(amb_sub_options, lazy), lazies},
        {"policy", CHOICE, AT(amb_sub_options, slow), policies},
        {"replay", CHOICE, AT(amb_sub_options, replay), tempos},
        {"start_at", COUNT, AT(amb_sub_options, start_at), NULL},
        {"ack_wait", TIME, AT(amb_sub_options, ack_wait_ns), NULL},
        {"max_deliver", SMALL, AT(amb_sub_options, max_deliver), NULL},
        {"credit_msgs", COUNT, AT(amb_sub_options, credit_msgs), NULL},
        {"credit_bytes", COUNT, AT(amb_sub_options, credit_bytes), NULL},
        {"block", TIME, AT(amb_sub_options, slow_block_ns), NULL},
        {"copy", FLAG, AT(amb_sub_options, copy), NULL},
        {"rate_msgs", COUNT, AT(amb_sub_options, rate_msgs), NULL},
        {"rate_bytes", COUNT, AT(amb_sub_options, rate_bytes), NULL},
        {NULL, TEXT, 0, NULL},
    };
    *out = (struct amb_py_sub_keywords){.options = AMB_INIT(amb_sub_options)};
    return read_all(keywords, table, out, sub_other);
}
