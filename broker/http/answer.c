/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/answer.h"

#include "broker/http/http_private.h"
#include "broker/http/per_object.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"
#include "wire/counters/exposition.h"
#include "wire/counters/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT "text/plain; charset=utf-8"
#define VIEW_PAGE_ROWS 100u
#define VIEW_PIECE 16384u /* bytes that are sent at a time */

/* Browsers are told these with each answer. */
static const struct {
    const char *name, *value;
} headers[] = {
    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

/* One request of a connection. */
struct request {
    struct amb_http *http;
    struct MHD_Connection *connection;
    const char *method, *target;
    bool is_unix;
};

static bool add_headers(struct MHD_Response *response, const char *type)
{
    bool is_good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        is_good = is_good &&
                  MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    }
    return is_good;
}

static enum MHD_Result queue(const struct request *request, unsigned status, const char *type,
                             struct MHD_Response *response)
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
static enum MHD_Result say(const struct request *request, unsigned status, const char *line)
{
    char text[AMB_HEALTH_WHY_MAX + 8];
    int len = snprintf(text, sizeof(text), "%s\n", line);
    return queue(request, status, TEXT,
                 MHD_create_response_from_buffer((size_t)len, text, MHD_RESPMEM_MUST_COPY));
}

/* Why a query is wrong; of the query itself it has only what reads as text. */
static enum MHD_Result say_why(const struct request *request, const char *why)
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

static enum amb_exposition_form form_of(const struct request *request)
{
    return amb_http_wants_openmetrics(MHD_lookup_connection_value(
               request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT))
               ? AMB_EXPOSITION_OPENMETRICS
               : AMB_EXPOSITION_PROMETHEUS;
}

static enum MHD_Result metrics(const struct request *request)
{
    struct amb_http *http = request->http;
    size_t len = 0;
    enum amb_exposition_form form = form_of(request);
    int64_t now_ns = amb_clock_monotonic_ns();
    amb_stat_set(&http->stats->silent_ns, (uint64_t)amb_health_silence_ns(&http->health, now_ns));
    char *text = amb_exposition(&http->image, form, (uint64_t)now_ns, &len);
    return queue(request, MHD_HTTP_OK, amb_exposition_type(form), buffer(text, len));
}

static enum MHD_Result health(const struct request *request, bool is_ready)
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

static enum MHD_Result per_object(const struct request *request)
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

static enum MHD_Result view(const struct request *request)
{
    struct arguments a = {0};
    char why[AMB_COUNTERS_REFUSAL_MAX] = "an argument is none of match, sort and top";
    (void)snprintf(a.query, sizeof(a.query), "%.16s", amb_http_view_of(request->target));
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
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, VIEW_PIECE,
                                                                      view_read, answer, view_end);
    if (response == NULL) {
        view_end(answer);
    }
    return queue(request, MHD_HTTP_OK, "application/json", response);
}

struct host_count {
    const char *value;
    unsigned count;
};

static enum MHD_Result count_host(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct host_count *hosts = arg;
    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        hosts->value = value == NULL ? "" : value;
        hosts->count++;
    }
    return MHD_YES;
}

/* 0, or the status of the refusal. */
static unsigned check_host(const struct request *request, const char **why)
{
    struct host_count hosts = {NULL, 0};
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_host, &hosts);
    if (hosts.count != 1) {
        *why = "one Host is needed";
        return MHD_HTTP_BAD_REQUEST;
    }
    if (!amb_http_host_is_ours(hosts.value, &request->http->names)) {
        *why = "Host is no name of this broker; see http.hosts";
        return MHD_HTTP_FORBIDDEN;
    }
    return 0;
}

/* 0, or the status of the refusal. */
static unsigned check_head(const struct request *request, const char **why)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (size == NULL || size->header_size > AMB_HTTP_HEAD_MAX) {
        *why = "the head is more than 8 KiB";
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    }
    if (!amb_http_is_method(request->method)) {
        *why = "only GET and HEAD";
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    return request->is_unix ? 0 : check_host(request, why);
}

static bool is_owner(const struct request *request)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return fd != NULL && getsockopt(fd->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

/* 0, or the status of the refusal: names of objects are for those who have a key. On a Unix socket
 * its mode has let them in. Where users came by a reload, that mode was chosen without them. */
static unsigned check_key(const struct request *request, enum amb_http_route route,
                          const char **why)
{
    const struct amb_config *config = request->http->config;
    bool came_users = amb_stat_get(&request->http->stats->came_users) != 0;
    if (route != AMB_HTTP_PER_OBJECT && route != AMB_HTTP_VIEW) {
        return 0;
    }
    if (request->is_unix) {
        *why = "only for the broker's own user and root, since there are users";
        return came_users && config->http.is_auto && !is_owner(request) ? MHD_HTTP_FORBIDDEN : 0;
    }
    if (config->http.insecure || config->auth.users_file[0] != '\0' || came_users) {
        *why = "only on a Unix socket: a key would travel in clear";
        return MHD_HTTP_FORBIDDEN;
    }
    const char *value = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                    MHD_HTTP_HEADER_AUTHORIZATION);
    *why = "the key of http.token_file is needed";
    return amb_http_has_key(value, config->http.token) ? 0 : MHD_HTTP_UNAUTHORIZED;
}

static enum MHD_Result answer(const struct request *request)
{
    const char *why = NULL;
    enum amb_http_route route = amb_http_route_of(request->target);
    unsigned refusal = check_head(request, &why);
    if (refusal == 0) {
        refusal = check_key(request, route, &why);
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
    struct request request = {.http = arg,
                              .connection = connection,
                              .method = method,
                              .target = url,
                              .is_unix = own->is_unix};
    return answer(&request);
}
