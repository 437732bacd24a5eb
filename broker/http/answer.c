/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/answer.h"

#include "broker/http/http_private.h"
#include "wire/base/clock.h"
#include "wire/counters/exposition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define TEXT "text/plain; charset=utf-8"

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

static enum MHD_Result metrics(const struct request *request)
{
    struct amb_http *http = request->http;
    size_t len = 0;
    enum amb_exposition_form form =
        amb_http_wants_openmetrics(MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                               MHD_HTTP_HEADER_ACCEPT))
            ? AMB_EXPOSITION_OPENMETRICS
            : AMB_EXPOSITION_PROMETHEUS;
    int64_t now_ns = amb_clock_monotonic_ns();
    amb_stat_set(&http->stats->silent_ns, (uint64_t)amb_health_silence_ns(&http->health, now_ns));
    char *text = amb_exposition(&http->image, form, (uint64_t)now_ns, &len);
    struct MHD_Response *response =
        text == NULL ? NULL : MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
    }
    return queue(request, MHD_HTTP_OK, amb_exposition_type(form), response);
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

static enum MHD_Result answer(const struct request *request)
{
    const char *why = NULL;
    unsigned refusal = check_head(request, &why);
    if (refusal != 0) {
        return say(request, refusal, why);
    }
    switch (amb_http_route_of(request->target)) {
    case AMB_HTTP_HEALTH:
        return health(request, false);
    case AMB_HTTP_READY:
        return health(request, true);
    case AMB_HTTP_METRICS:
        return metrics(request);
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
