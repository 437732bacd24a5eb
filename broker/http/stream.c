/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/stream.h"

#include "broker/count/broker_stats.h"
#include "broker/count/shard_stats.h"
#include "broker/http/delta.h"
#include "broker/http/request.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"
#include "wire/counters/query.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BEAT_NS AMB_NS_PER_SEC
#define STALL_NS (8 * AMB_NS_PER_SEC) /* less than libmicrohttpd's own time */
#define PIECE 16384u                  /* bytes that are sent at a time */
#define NAME_MAX_BYTES 32u            /* of a view */

struct amb_feed {
    struct amb_stream_question question;
    json_t *state[AMB_STREAM_VIEWS_MAX]; /* rows by key, as they were sent */
    bool is_cut[AMB_STREAM_VIEWS_MAX];
    unsigned streams; /* that read it */
    int64_t next_ns;
};

struct amb_stream {
    struct amb_streams *all;
    struct amb_feed *feed;
    struct MHD_Connection *connection;
    enum amb_stream_way way;
    char *bytes; /* not sent yet: from `at` to `len` */
    size_t at, len, size;
    int64_t read_ns; /* when it last took bytes */
    bool is_suspended, is_over;
};

/* ---- questions ---- */

static bool add_view(struct amb_stream_question *question, const char *name,
                     char why[AMB_COUNTERS_REFUSAL_MAX])
{
    bool is_known =
        strchr(name, ' ') == NULL && amb_counters_query_is(name) && strcmp(name, "metrics") != 0;
    bool is_twice = false;
    for (unsigned i = 0; i < question->count; i++) {
        size_t len = strcspn(question->views[i].query, " ");
        is_twice =
            is_twice || (strlen(name) == len && memcmp(question->views[i].query, name, len) == 0);
    }
    if (!is_known || is_twice) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "%s",
                       is_twice ? "a view stands there twice" : "there is no such view");
        return false;
    }
    if (question->count == AMB_STREAM_VIEWS_MAX) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "a stream has at most %u views",
                       AMB_STREAM_VIEWS_MAX);
        return false;
    }
    struct amb_stream_view *view = &question->views[question->count++];
    (void)snprintf(view->query, sizeof(view->query), "%s", name);
    view->top = AMB_STREAM_ROWS;
    return true;
}

bool amb_stream_argument(struct amb_stream_question *question, const char *name, const char *value,
                         char why[AMB_COUNTERS_REFUSAL_MAX])
{
    uint64_t top = 0;
    struct amb_stream_view *last =
        question->count == 0 ? NULL : &question->views[question->count - 1];
    if (value != NULL && strcmp(name, "view") == 0) {
        return add_view(question, value, why);
    }
    bool is_query = strcmp(name, "match") == 0 || strcmp(name, "sort") == 0;
    (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX,
                   "an argument is none of view, and match, sort and top behind a view");
    if (value == NULL || last == NULL || (!is_query && strcmp(name, "top") != 0)) {
        return false;
    }
    if (is_query) {
        /* The number of rows has to fit behind it. */
        return amb_http_query_add(last->query, sizeof(last->query) - 32, name, value);
    }
    (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "top is a number from 1 to %u",
                   AMB_STREAM_ROWS_MAX);
    bool is_good = amb_text_parse_count(value, &top) && top >= 1 && top <= AMB_STREAM_ROWS_MAX;
    last->top = is_good ? (uint32_t)top : last->top;
    return is_good;
}

static bool is_same(const struct amb_stream_question *a, const struct amb_stream_question *b)
{
    bool is = a->count == b->count;
    for (unsigned i = 0; is && i < a->count; i++) {
        is =
            a->views[i].top == b->views[i].top && strcmp(a->views[i].query, b->views[i].query) == 0;
    }
    return is;
}

/* ---- a feed ---- */

/* The first word of the view's query. */
static void name_of(const struct amb_stream_view *asked, char name[NAME_MAX_BYTES])
{
    (void)snprintf(name, NAME_MAX_BYTES, "%.*s", (int)strcspn(asked->query, " "), asked->query);
}

/* The rows of a view by key; at most view->top. */
static enum amb_status read_view(const struct amb_streams *streams,
                                 const struct amb_stream_view *asked, json_t **rows, bool *is_cut,
                                 char why[AMB_COUNTERS_REFUSAL_MAX])
{
    char query[AMB_COUNTERS_QUERY_MAX + 32], name[NAME_MAX_BYTES];
    struct amb_counters_view *view = NULL;
    name_of(asked, name);
    bool is_list = strcmp(name, "status") != 0;
    (void)snprintf(query, sizeof(query), "%s", asked->query);
    if (is_list) {
        (void)snprintf(query, sizeof(query), "%s top=%u", asked->query, asked->top + 1);
    }
    enum amb_status status = amb_counters_view_open(streams->image, query, NULL,
                                                    (uint64_t)amb_clock_monotonic_ns(), &view, why);
    if (status != AMB_OK) {
        return status;
    }
    char *text = amb_counters_view_all(view);
    amb_counters_view_close(&view);
    json_t *answer = text == NULL ? NULL : json_loads(text, 0, NULL);
    free(text);
    json_t *list = json_object_get(answer, name);
    *is_cut = json_array_size(list) > asked->top;
    if (*is_cut) {
        (void)json_array_remove(list, asked->top);
    }
    *rows = amb_delta_rows(name, answer);
    json_decref(answer);
    return *rows == NULL ? AMB_ENOMEM : AMB_OK;
}

/* Puts a view's part into an event; takes it. */
static bool put_view(json_t *views, const struct amb_stream_view *asked, json_t *part, bool is_cut)
{
    char name[NAME_MAX_BYTES];
    name_of(asked, name);
    if (is_cut && part != NULL) {
        (void)json_object_set_new(part, "cut", json_true());
    }
    return json_object_set_new(views, name, part) == 0;
}

/* An event as text, for free(); NULL: no memory. Takes both; columns may be NULL. */
static char *event_text(const char *kind, json_t *views, json_t *columns)
{
    json_t *data = json_object();
    char *json = NULL, *text = NULL;
    int64_t at_ms = amb_clock_realtime_ns() / AMB_NS_PER_MS;
    bool is_good = json_object_set_new(data, "at_ms", json_integer(at_ms)) == 0;
    if (columns != NULL) {
        is_good = json_object_set_new(data, "columns", columns) == 0 && is_good;
    }
    is_good = json_object_set_new(data, "views", views) == 0 && is_good;
    json = is_good ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    if (json == NULL || asprintf(&text, "event: %s\ndata: %s\n\n", kind, json) < 0) {
        text = NULL;
    }
    free(json);
    return text;
}

/* The state as one event. */
static char *full_text(const struct amb_streams *streams, const struct amb_feed *feed)
{
    json_t *views = json_object(), *columns = json_object(), *nothing = json_object();
    bool is_good = nothing != NULL;
    for (unsigned i = 0; i < feed->question.count; i++) {
        const struct amb_stream_view *asked = &feed->question.views[i];
        char name[NAME_MAX_BYTES];
        name_of(asked, name);
        is_good =
            put_view(views, asked, amb_delta_of(nothing, feed->state[i]), feed->is_cut[i]) &&
            json_object_set_new(columns, name, amb_delta_columns(streams->image, name)) == 0 &&
            is_good;
    }
    json_decref(nothing);
    char *text = event_text("full", views, columns);
    if (!is_good) {
        free(text);
        return NULL;
    }
    return text;
}

/* Reads all views. EINVAL and `why`, ENOMEM: the state is as it was. */
static enum amb_status read_all(const struct amb_streams *streams, struct amb_feed *feed,
                                json_t *now[AMB_STREAM_VIEWS_MAX], bool is_cut[],
                                char why[AMB_COUNTERS_REFUSAL_MAX])
{
    enum amb_status status = AMB_OK;
    for (unsigned i = 0; i < feed->question.count && status == AMB_OK; i++) {
        status = read_view(streams, &feed->question.views[i], &now[i], &is_cut[i], why);
    }
    for (unsigned i = 0; i < feed->question.count && status != AMB_OK; i++) {
        json_decref(now[i]);
    }
    return status;
}

/* The changes since the last one, which are the state from now on. NULL: no memory. */
static char *next_text(const struct amb_streams *streams, struct amb_feed *feed)
{
    json_t *now[AMB_STREAM_VIEWS_MAX] = {NULL}, *views = json_object();
    bool is_cut[AMB_STREAM_VIEWS_MAX] = {false}, is_good = true, is_empty = true;
    char why[AMB_COUNTERS_REFUSAL_MAX];
    if (read_all(streams, feed, now, is_cut, why) != AMB_OK) {
        json_decref(views);
        return NULL;
    }
    for (unsigned i = 0; i < feed->question.count; i++) {
        json_t *part = amb_delta_of(feed->state[i], now[i]);
        bool is_same_cut = is_cut[i] == feed->is_cut[i];
        if (json_object_size(part) > 0 || !is_same_cut) {
            is_empty = false;
            if (!is_same_cut && part != NULL) {
                (void)json_object_set_new(part, "cut", json_boolean(is_cut[i]));
            }
            is_good = put_view(views, &feed->question.views[i], part, false) && is_good;
        } else {
            is_good = is_good && part != NULL;
            json_decref(part);
        }
        json_decref(feed->state[i]);
        feed->state[i] = now[i];
        feed->is_cut[i] = is_cut[i];
    }
    if (is_empty) {
        json_decref(views);
        return is_good ? strdup(":\n\n") : NULL; /* It says that the broker is there. */
    }
    char *text = event_text("delta", views, NULL);
    if (!is_good) {
        free(text);
        return NULL;
    }
    return text;
}

static void feed_free(struct amb_streams *streams, struct amb_feed *feed)
{
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        streams->feeds[i] = streams->feeds[i] == feed ? NULL : streams->feeds[i];
    }
    for (unsigned i = 0; i < AMB_STREAM_VIEWS_MAX; i++) {
        json_decref(feed->state[i]);
    }
    free(feed);
}

static enum amb_status feed_new(struct amb_streams *streams,
                                const struct amb_stream_question *question, struct amb_feed **out,
                                char why[AMB_COUNTERS_REFUSAL_MAX])
{
    struct amb_feed *feed = calloc(1, sizeof(*feed));
    if (feed == NULL) {
        return AMB_ENOMEM;
    }
    feed->question = *question;
    feed->next_ns = amb_clock_monotonic_ns() + BEAT_NS;
    enum amb_status status = read_all(streams, feed, feed->state, feed->is_cut, why);
    if (status != AMB_OK) {
        memset(feed->state, 0, sizeof(feed->state));
        feed_free(streams, feed);
        return status;
    }
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        if (streams->feeds[i] == NULL) {
            streams->feeds[i] = feed;
            break; /* Each feed has a stream, so there is room. */
        }
    }
    *out = feed;
    return AMB_OK;
}

static enum amb_status feed_of(struct amb_streams *streams,
                               const struct amb_stream_question *question, struct amb_feed **out,
                               char why[AMB_COUNTERS_REFUSAL_MAX])
{
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        if (streams->feeds[i] != NULL && is_same(&streams->feeds[i]->question, question)) {
            *out = streams->feeds[i];
            return AMB_OK;
        }
    }
    return feed_new(streams, question, out, why);
}

/* ---- a stream ---- */

static int fd_of(const struct amb_stream *stream)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

/* A peer that sends nothing more has gone, or will; nobody else looks while it is suspended. */
static bool has_left(const struct amb_stream *stream)
{
    char byte;
    ssize_t got = recv(fd_of(stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void wake(struct amb_stream *stream)
{
    if (stream->is_suspended) {
        stream->is_suspended = false;
        MHD_resume_connection(stream->connection);
    }
}

/* Its reader is too slow, or has gone. */
static void stop(struct amb_stream *stream)
{
    stream->is_over = true;
    stream->at = stream->len = 0;
    wake(stream);
    (void)shutdown(fd_of(stream), SHUT_RDWR);
}

/* ELIMIT: its reader is too slow. */
static enum amb_status append(struct amb_stream *stream, const char *text)
{
    size_t more = strlen(text), unread = stream->len - stream->at;
    /* The first event may be longer; behind it nothing waits. */
    if (unread > 0 && unread + more > AMB_STREAM_UNREAD_MAX) {
        return AMB_ELIMIT;
    }
    if (stream->at > 0) {
        memmove(stream->bytes, stream->bytes + stream->at, unread);
        stream->at = 0;
        stream->len = unread;
    }
    if (unread + more > stream->size) {
        char *bytes = realloc(stream->bytes, unread + more);
        if (bytes == NULL) {
            return AMB_ENOMEM;
        }
        stream->bytes = bytes;
        stream->size = unread + more;
    }
    memcpy(stream->bytes + stream->len, text, more);
    stream->len += more;
    return AMB_OK;
}

static ssize_t stream_read(void *arg, uint64_t position, char *out, size_t size)
{
    struct amb_stream *stream = arg;
    (void)position;
    if (stream->at == stream->len) {
        if (stream->is_over) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        free(stream->bytes); /* Most are a few hundred bytes; the first was not. */
        stream->bytes = NULL;
        stream->at = stream->len = stream->size = 0;
        stream->is_suspended = true;
        MHD_suspend_connection(stream->connection); /* Else it would be asked at once, again. */
        return 0;
    }
    stream->read_ns = amb_clock_monotonic_ns();
    size_t part = stream->len - stream->at < size ? stream->len - stream->at : size;
    memcpy(out, stream->bytes + stream->at, part);
    stream->at += part;
    return (ssize_t)part;
}

static void stream_end(void *arg)
{
    struct amb_stream *stream = arg;
    struct amb_streams *all = stream->all;
    if (!stream->is_over && stream->at < stream->len) {
        amb_stat_add(&all->stats->http_streams_ended, 1); /* libmicrohttpd was first. */
    }
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        if (all->of[i] == stream) {
            all->of[i] = NULL;
            all->count--;
            amb_stat_set(&all->stats->http_streams, all->count);
        }
    }
    if (stream->feed != NULL && --stream->feed->streams == 0) {
        feed_free(all, stream->feed);
    }
    free(stream->bytes);
    free(stream);
}

static enum amb_status stream_begin(struct amb_stream *stream,
                                    const struct amb_stream_question *question,
                                    char why[AMB_COUNTERS_REFUSAL_MAX])
{
    enum amb_status status = feed_of(stream->all, question, &stream->feed, why);
    if (status != AMB_OK) {
        return status;
    }
    stream->feed->streams++;
    char *text = full_text(stream->all, stream->feed);
    status = text == NULL ? AMB_ENOMEM : append(stream, text);
    free(text);
    stream->is_over = has_left(stream); /* It gets this, and no more. */
    return status;
}

enum amb_status amb_stream_open(struct amb_streams *streams, struct MHD_Connection *connection,
                                enum amb_stream_way way, const struct amb_stream_question *question,
                                struct MHD_Response **out, char why[AMB_COUNTERS_REFUSAL_MAX])
{
    unsigned place = 0;
    (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "a view is needed, as view=status");
    if (question->count == 0) {
        return AMB_EINVAL;
    }
    while (place < AMB_STREAMS_MAX && streams->of[place] != NULL) {
        place++;
    }
    if (place == AMB_STREAMS_MAX || streams->is_over) {
        return AMB_ELIMIT;
    }
    struct amb_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return AMB_ENOMEM;
    }
    stream->all = streams;
    stream->connection = connection;
    stream->way = way;
    stream->read_ns = amb_clock_monotonic_ns();
    streams->of[place] = stream;
    amb_stat_set(&streams->stats->http_streams, ++streams->count);
    enum amb_status status = stream_begin(stream, question, why);
    if (status == AMB_OK) {
        *out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, stream_read, stream,
                                                 stream_end);
        status = *out == NULL ? AMB_ENOMEM : AMB_OK;
    }
    if (status != AMB_OK) {
        stream_end(stream);
    }
    return status;
}

/* Its reader takes nothing. */
static bool is_stalled(const struct amb_stream *stream, int64_t now_ns)
{
    return stream->at < stream->len && now_ns - stream->read_ns >= STALL_NS;
}

static void beat(struct amb_streams *streams, struct amb_feed *feed, int64_t now_ns)
{
    char *text = next_text(streams, feed);
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        struct amb_stream *stream = streams->of[i];
        if (stream == NULL || stream->feed != feed || stream->is_over) {
            continue;
        }
        /* One that lacks a change would show wrong figures: it has to begin anew. */
        enum amb_status status = text == NULL                 ? AMB_ENOMEM
                                 : is_stalled(stream, now_ns) ? AMB_ELIMIT
                                                              : append(stream, text);
        if (status != AMB_OK || streams->is_closed[stream->way] || has_left(stream)) {
            amb_stat_add(&streams->stats->http_streams_ended, status == AMB_OK ? 0 : 1);
            stop(stream);
        } else {
            wake(stream);
        }
    }
    free(text);
}

/* NULL: nobody listens. */
static struct amb_feed *first_due(const struct amb_streams *streams)
{
    struct amb_feed *due = NULL;
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        struct amb_feed *feed = streams->feeds[i];
        due = feed != NULL && (due == NULL || feed->next_ns < due->next_ns) ? feed : due;
    }
    return due;
}

void amb_streams_turn(struct amb_streams *streams, int64_t now_ns)
{
    /* One a turn: the observer has other work. */
    struct amb_feed *due = first_due(streams);
    if (due != NULL && now_ns >= due->next_ns) {
        due->next_ns += BEAT_NS;
        due->next_ns = due->next_ns > now_ns ? due->next_ns : now_ns + BEAT_NS;
        beat(streams, due, now_ns);
    }
}

int64_t amb_streams_due(const struct amb_streams *streams)
{
    const struct amb_feed *due = first_due(streams);
    return due == NULL ? INT64_MAX : due->next_ns;
}

void amb_streams_stop(struct amb_streams *streams, enum amb_stream_way way)
{
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        if (streams->of[i] != NULL && streams->of[i]->way == way) {
            stop(streams->of[i]);
        }
    }
}

void amb_streams_end(struct amb_streams *streams)
{
    streams->is_over = true;
    for (unsigned i = 0; i < AMB_STREAMS_MAX; i++) {
        if (streams->of[i] != NULL) {
            streams->of[i]->is_over = true; /* Its bytes are sent, where that is at once. */
            wake(streams->of[i]);
        }
    }
}
