/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/answer.h"

#include "broker/control/clients/client.h"
#include "broker/http/access.h"
#include "broker/http/http_private.h"
#include "broker/http/per_object.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"
#include "wire/counters/exposition.h"
#include "wire/counters/query.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT "text/plain; charset=utf-8"
#define VIEW_NAME_MAX 16 /* bytes that are read: no view has so long a name */
#define VIEW_PAGE_ROWS 100u
#define VIEW_PIECE 16384u /* bytes that are sent at a time */

#define POLICY "Content-Security-Policy"

/* Browsers are told these with each answer, */
static const struct {
    const char *name, *value;
} headers[] = {
    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},     {MHD_HTTP_HEADER_CONNECTION, "close"},
    {"Cross-Origin-Resource-Policy", "same-origin"}, {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

/* ... and this, but with the page. */
static const char policy[] = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'";

static bool add_headers(struct MHD_Response *response, const char *type)
{
    bool is_good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;
    if (MHD_get_response_header(response, POLICY) == NULL) {
        is_good = is_good && MHD_add_response_header(response, POLICY, policy) == MHD_YES;
    }
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        is_good = is_good &&
                  MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    }
    return is_good;
}

static enum MHD_Result queue(const struct amb_http_request *request, unsigned status,
                             const char *type, struct MHD_Response *response)
{
    struct amb_broker_stats *stats = request->http->stats;
    amb_stat_add(&stats->http_requests, 1);
    amb_stat_add(&stats->http_refused, status >= 400 ? 1 : 0);
    if (response == NULL) {
        return MHD_NO;
    }
    bool is_good = add_headers(response, type);
    if (status == MHD_HTTP_UNAUTHORIZED) {
        is_good = is_good && MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                                     "Bearer") == MHD_YES;
    }
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        is_good = is_good && MHD_add_response_header(response, "Allow", "GET, HEAD") == MHD_YES;
    }
    enum MHD_Result result =
        is_good ? MHD_queue_response(request->connection, status, response) : MHD_NO;
    MHD_destroy_response(response);
    return result;
}

/* A line for people; `line` is copied. */
static enum MHD_Result say(const struct amb_http_request *request, unsigned status,
                           const char *line)
{
    char text[AMB_HEALTH_WHY_MAX + 8];
    int len = snprintf(text, sizeof(text), "%s\n", line);
    return queue(request, status, TEXT,
                 MHD_create_response_from_buffer((size_t)len, text, MHD_RESPMEM_MUST_COPY));
}

/* Why a query is wrong; of the query itself it has only what reads as text. */
static enum MHD_Result say_why(const struct amb_http_request *request, const char *why)
{
    char shown[AMB_HEALTH_WHY_MAX];
    return say(request, MHD_HTTP_BAD_REQUEST, amb_text_show(why, shown, sizeof(shown)));
}

/* Takes the text, which may be NULL. */
static struct MHD_Response *buffer(char *text, size_t len)
{
    struct MHD_Response *response =
        text == NULL ? NULL : MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
    }
    return response;
}

static enum amb_exposition_form form_of(const struct amb_http_request *request)
{
    return amb_http_wants_openmetrics(MHD_lookup_connection_value(
               request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT))
               ? AMB_EXPOSITION_OPENMETRICS
               : AMB_EXPOSITION_PROMETHEUS;
}

static enum MHD_Result metrics(const struct amb_http_request *request)
{
    struct amb_http *http = request->http;
    size_t len = 0;
    enum amb_exposition_form form = form_of(request);
    int64_t now_ns = amb_clock_monotonic_ns();
    amb_stat_set(&http->stats->silent_ns, (uint64_t)amb_health_silence_ns(&http->health, now_ns));
    char *text = amb_exposition(&http->image, form, (uint64_t)now_ns, &len);
    return queue(request, MHD_HTTP_OK, amb_exposition_type(form), buffer(text, len));
}

static enum MHD_Result health(const struct amb_http_request *request, bool is_ready)
{
    struct amb_http *http = request->http;
    char why[AMB_HEALTH_WHY_MAX];
    int64_t now_ns = amb_clock_monotonic_ns();
    bool is_good = is_ready
                       ? amb_health_is_ready(&http->health, http->stats, &http->front, now_ns, why)
                       : amb_health_is_good(&http->health, now_ns, why);
    return is_good ? say(request, MHD_HTTP_OK, "ok")
                   : say(request, MHD_HTTP_SERVICE_UNAVAILABLE, why);
}

/* The words of a query, gathered from the arguments of a request. */
struct arguments {
    char query[AMB_COUNTERS_QUERY_MAX - 32];
    bool is_per_object, is_wrong;
    uint64_t top; /* of per-object */
};

/* False: it is none of the path's, or its value is wrong. */
static bool take(struct arguments *a, const char *name, const char *value)
{
    bool is_top = strcmp(name, "top") == 0;
    if (value == NULL) {
        return false;
    }
    if (is_top && a->is_per_object) {
        return amb_text_parse_count(value, &a->top) && a->top > 0;
    }
    if (is_top || strcmp(name, "match") == 0 || strcmp(name, "sort") == 0) {
        return amb_http_query_add(a->query, sizeof(a->query), name, value);
    }
    return a->is_per_object && strcmp(name, "kind") == 0;
}

static enum MHD_Result take_argument(void *arg, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct arguments *a = arg;
    (void)kind;
    a->is_wrong = a->is_wrong || !take(a, name, value);
    return MHD_YES;
}

static enum MHD_Result per_object(const struct amb_http_request *request)
{
    struct amb_http *http = request->http;
    uint32_t most = http->config->http.objects;
    struct arguments a = {.is_per_object = true, .top = most};
    const char *kind =
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "kind");
    char why[AMB_COUNTERS_REFUSAL_MAX] = "an argument is none of kind, match, sort and top", *text;
    size_t len = 0;
    enum amb_exposition_form form = form_of(request);
    if (most == 0) {
        return say(request, MHD_HTTP_NOT_FOUND, "http.objects is 0");
    }
    (void)snprintf(a.query, sizeof(a.query), "%.16s", kind == NULL ? "" : kind);
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, take_argument, &a);
    enum amb_status status =
        a.is_wrong ? AMB_EINVAL
                   : amb_per_object(&http->image, a.query, a.top < most ? (uint32_t)a.top : most,
                                    form, &text, &len, why);
    if (status != AMB_OK) {
        return status == AMB_EINVAL ? say_why(request, why) : MHD_NO;
    }
    return queue(request, MHD_HTTP_OK, amb_exposition_type(form), buffer(text, len));
}

/* A view while its pages are sent. */
struct view_answer {
    struct amb_counters_view *view;
    char *page;
    size_t at, len;
    bool is_last;
};

static ssize_t view_read(void *arg, uint64_t position, char *out, size_t size)
{
    struct view_answer *answer = arg;
    (void)position;
    if (answer->at == answer->len) {
        free(answer->page);
        answer->page = answer->is_last
                           ? NULL
                           : amb_counters_view_page(answer->view, VIEW_PAGE_ROWS, &answer->is_last);
        answer->at = 0;
        answer->len = answer->page == NULL ? 0 : strlen(answer->page);
        if (answer->page == NULL) {
            return answer->is_last ? MHD_CONTENT_READER_END_OF_STREAM
                                   : MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
    size_t part = answer->len - answer->at < size ? answer->len - answer->at : size;
    memcpy(out, answer->page + answer->at, part);
    answer->at += part;
    return (ssize_t)part;
}

static void view_end(void *arg)
{
    struct view_answer *answer = arg;
    amb_counters_view_close(&answer->view);
    free(answer->page);
    free(answer);
}

/* libmicrohttpd would send the end of a body whose size it does not know. */
static enum MHD_Result say_head(const struct amb_http_request *request, const char *type)
{
    return queue(request, MHD_HTTP_OK, type,
                 MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

static bool is_head(const struct amb_http_request *request)
{
    return strcmp(request->method, "HEAD") == 0;
}

/* "paths" takes a name that a client may have, and no other argument is known. */
static bool table_query(const struct amb_http_request *request, const char *view,
                        char query[AMB_STATUS_ASK_MAX])
{
    const char *name =
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "name");
    int arguments =
        MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    bool is_paths = strcmp(view, "paths") == 0;
    (void)snprintf(query, AMB_STATUS_ASK_MAX, "%.*s%s", VIEW_NAME_MAX, view, is_paths ? " " : "");
    if (arguments == 0) {
        return !is_paths; /* Those of all clients would be too many. */
    }
    return is_paths && arguments == 1 && name != NULL && name[0] != '\0' &&
           amb_http_unescape(name, query + sizeof("paths ") - 1, AMB_CLIENT_NAME_MAX + 1);
}

static enum MHD_Result table(const struct amb_http_request *request, const char *view)
{
    char query[AMB_STATUS_ASK_MAX];
    const char *text = NULL;
    if (!table_query(request, view, query)) {
        return say(request, MHD_HTTP_BAD_REQUEST, "transports has no arguments; paths needs name");
    }
    enum amb_status status = amb_tables_ask(&request->http->tables, query, request->connection,
                                            amb_clock_monotonic_ns(), &text);
    if (status == AMB_OK) {
        return queue(request, MHD_HTTP_OK, "application/json",
                     MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                     MHD_RESPMEM_MUST_COPY));
    }
    if (status == AMB_EAGAIN) {
        return MHD_YES; /* It waits, and comes here once more. */
    }
    return say(request, MHD_HTTP_SERVICE_UNAVAILABLE, amb_tables_why(status));
}

static enum MHD_Result view(const struct amb_http_request *request)
{
    struct arguments a = {0};
    char why[AMB_COUNTERS_REFUSAL_MAX] = "an argument is none of match, sort and top";
    (void)snprintf(a.query, sizeof(a.query), "%.*s", VIEW_NAME_MAX,
                   amb_http_view_of(request->target));
    if (amb_tables_has(a.query)) {
        return table(request, a.query);
    }
    if (strchr(a.query, ' ') != NULL || !amb_counters_query_is(a.query)) {
        return say(request, MHD_HTTP_NOT_FOUND, "there is no such view");
    }
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, take_argument, &a);
    struct view_answer *answer = calloc(1, sizeof(*answer));
    if (answer == NULL) {
        return MHD_NO;
    }
    enum amb_status status =
        a.is_wrong ? AMB_EINVAL
                   : amb_counters_view_open(&request->http->image, a.query, NULL,
                                            (uint64_t)amb_clock_monotonic_ns(), &answer->view, why);
    if (status != AMB_OK) {
        view_end(answer);
        return status == AMB_EINVAL ? say_why(request, why) : MHD_NO;
    }
    if (is_head(request)) {
        view_end(answer);
        return say_head(request, "application/json");
    }
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, VIEW_PIECE,
                                                                      view_read, answer, view_end);
    if (response == NULL) {
        view_end(answer);
    }
    return queue(request, MHD_HTTP_OK, "application/json", response);
}

struct stream_arguments {
    struct amb_stream_question question;
    bool is_wrong;
    char why[AMB_COUNTERS_REFUSAL_MAX];
};

static enum MHD_Result take_stream_argument(void *arg, enum MHD_ValueKind kind, const char *name,
                                            const char *value)
{
    struct stream_arguments *a = arg;
    (void)kind;
    a->is_wrong = a->is_wrong || !amb_stream_argument(&a->question, name, value, a->why);
    return MHD_YES;
}

static enum MHD_Result events(const struct amb_http_request *request)
{
    struct stream_arguments a = {.is_wrong = false};
    struct MHD_Response *response = NULL;
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND,
                                    take_stream_argument, &a);
    enum amb_status status =
        a.is_wrong ? AMB_EINVAL
                   : amb_stream_open(&request->http->streams, request->connection,
                                     amb_http_way_of(request), &a.question, &response, a.why);
    if (status == AMB_ELIMIT) {
        amb_stat_add(&request->http->stats->http_turned_away, 1);
        (void)snprintf(a.why, sizeof(a.why), "%u streams of events are open", AMB_STREAMS_MAX);
        return say(request, MHD_HTTP_SERVICE_UNAVAILABLE, a.why);
    }
    if (status != AMB_OK) {
        return status == AMB_EINVAL ? say_why(request, a.why) : MHD_NO;
    }
    if (is_head(request)) {
        MHD_destroy_response(response);
        return say_head(request, "text/event-stream");
    }
    return queue(request, MHD_HTTP_OK, "text/event-stream", response);
}

static bool takes_gzip(const struct amb_http_request *request)
{
    const char *value = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                    MHD_HTTP_HEADER_ACCEPT_ENCODING);
    return value != NULL && strstr(value, "gzip") != NULL;
}

/* is_new: its key is spent, so it gets a cookie for what the page asks. */
static enum MHD_Result page(const struct amb_http_request *request, bool is_new)
{
    const struct amb_http *http = request->http;
    char cookie[AMB_VISITS_COOKIE_SIZE];
    struct MHD_Response *response = amb_http_page_response(&http->page, takes_gzip(request));
    if (response == NULL) {
        return say(request, MHD_HTTP_NOT_FOUND, "this broker was built without the page");
    }
    bool is_good = MHD_add_response_header(response, POLICY, http->page.policy) == MHD_YES;
    if (is_new) {
        is_good = is_good &&
                  amb_visits_cookie(&http->visits, amb_clock_realtime_ns() / AMB_NS_PER_SEC,
                                    cookie) == AMB_OK &&
                  MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie) == MHD_YES;
    }
    if (!is_good) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    return queue(request, MHD_HTTP_OK, "text/html; charset=utf-8", response);
}

static enum MHD_Result answer(const struct amb_http_request *request)
{
    const char *why = NULL;
    bool is_new = false;
    enum amb_http_route route = amb_http_route_of(request->target);
    unsigned refusal = amb_http_check_head(request, &why);
    if (refusal == 0) {
        refusal = amb_http_check_key(request, route, &is_new, &why);
    }
    if (refusal != 0) {
        return say(request, refusal, why);
    }
    switch (route) {
    case AMB_HTTP_HEALTH:
        return health(request, false);
    case AMB_HTTP_READY:
        return health(request, true);
    case AMB_HTTP_METRICS:
        return metrics(request);
    case AMB_HTTP_PER_OBJECT:
        return per_object(request);
    case AMB_HTTP_VIEW:
        return view(request);
    case AMB_HTTP_EVENTS:
        return events(request);
    case AMB_HTTP_PAGE:
        return page(request, is_new);
    case AMB_HTTP_NOTHING:
        break;
    }
    return say(request, MHD_HTTP_NOT_FOUND, "there is nothing; see /metrics, /healthz, /readyz");
}

enum MHD_Result amb_http_answer(void *arg, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_size, void **state)
{
    (void)version;
    (void)upload;
    (void)state;
    *upload_size = 0;
    const union MHD_ConnectionInfo *context =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct amb_http_connection *own = context == NULL ? NULL : context->socket_context;
    if (own == NULL) {
        return MHD_NO;
    }
    own->since_ns = 0;
    struct amb_http_request request = {.http = arg,
                                       .connection = connection,
                                       .method = method,
                                       .target = url,
                                       .is_unix = own->is_unix};
    return answer(&request);
}
