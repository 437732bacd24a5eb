/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/http.h"

#include "broker/control/door.h"
#include "broker/http/access.h"
#include "broker/http/answer.h"
#include "broker/http/connections.h"
#include "broker/http/http_private.h"
#include "broker/http/visit.h"
#include "broker/observe/observer.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define POOL_BYTES ((size_t)32768) /* of a connection, for its head and its answer's */
#define TICK_NS AMB_NS_PER_SEC
#define LAST_TURNS 4u

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int turn(void *arg)
{
    struct amb_http *http = arg;
    int64_t now_ns = amb_clock_monotonic_ns(), next_ns = INT64_MAX;
    amb_http_connections_turn(http, now_ns);
    amb_http_close_ways(http);
    amb_streams_turn(&http->streams, now_ns);
    (void)MHD_run(http->daemon);
    if (now_ns >= http->tick_ns) {
        amb_http_connections_end_slow(http, now_ns);
        amb_tables_tick(&http->tables, now_ns);
        http->tick_ns = now_ns + TICK_NS;
    }
    if (http->connection_count > 0) {
        next_ns = http->tick_ns;
    }
    if (http->is_paused) {
        next_ns = sooner(next_ns, http->resume_ns);
    }
    next_ns = sooner(next_ns, amb_streams_due(&http->streams));
    next_ns = sooner(next_ns, amb_health_turn(&http->health, now_ns));
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool has_wait = MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES;
    int64_t ms = next_ns == INT64_MAX ? -1 : (next_ns - now_ns) / AMB_NS_PER_MS + 1;
    if (has_wait && (ms < 0 || (int64_t)wait_ms < ms)) {
        ms = wait_ms > INT32_MAX ? INT32_MAX : (int64_t)wait_ms;
    }
    return (int)ms;
}

/* Start and end ------------------------------------------------------------------------------- */

static void log_line(void *arg, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

static void log_line(void *arg, const char *format, va_list list)
{
    char text[256];
    (void)arg;
    (void)vsnprintf(text, sizeof(text), format, list);
    text[strcspn(text, "\n")] = '\0';
    amb_trace("http: %s", text); /* A line for each TCP option on a Unix socket. */
}

/* Paths have no escapes here, so none is undone. */
static size_t leave_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

static bool start_daemon(struct amb_http *http)
{
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0,
        NULL, NULL, amb_http_answer, http, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL,
        MHD_OPTION_CONNECTION_LIMIT, AMB_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, AMB_HTTP_PROGRESS_S,
        MHD_OPTION_NOTIFY_CONNECTION, amb_http_on_connection, http, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escapes, http, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    return http->daemon != NULL;
}

bool amb_http_watch(const struct amb_http *http, int fd, uint32_t place)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = place}};
    return epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool watch_all(struct amb_http *http)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bool is_good = http->epoll_fd >= 0 && info != NULL &&
                   amb_http_watch(http, info->epoll_fd, AMB_HTTP_AT_DAEMON);
    for (unsigned i = 0; i < http->listener_count; i++) {
        is_good = is_good && amb_http_watch(http, http->listeners[i].fd, AMB_HTTP_AT_LISTENERS + i);
    }
    return is_good;
}

static void add_name(struct amb_http *http, const char *name)
{
    if (http->names.count < AMB_HTTP_NAMES_MAX) {
        http->name_items[http->names.count++] = name;
    }
}

void amb_http_name_all(struct amb_http *http)
{
    bool is_first = http->names.items == NULL;
    const struct amb_config_http *config = &http->config->http;
    http->names.items = http->name_items;
    http->names.count = 0;
    for (size_t i = 0; i < config->hosts.count; i++) {
        add_name(http, config->hosts.items[i]);
    }
    if (gethostname(http->machine, sizeof(http->machine) - 1) == 0) {
        add_name(http, http->machine);
    }
    for (unsigned i = 0; i < http->listener_count; i++) {
        const struct amb_url *url = &http->listeners[i].url;
        if (url->scheme == AMB_URL_UNIX) {
            continue;
        }
        size_t used = strlen(http->urls);
        bool is_v6 = strchr(url->host, ':') != NULL;
        add_name(http, url->host);
        if (!is_first) {
            continue;
        }
        (void)snprintf(http->urls + used, sizeof(http->urls) - used, "%shttp://%s%s%s:%u",
                       used == 0 ? "" : " ", is_v6 ? "[" : "", url->host, is_v6 ? "]" : "",
                       (unsigned)url->port);
    }
}

static enum amb_status open_all(struct amb_http *http, char *error, size_t error_size)
{
    const struct amb_config_http *config = &http->config->http;
    for (size_t i = 0; i < config->doors.count; i++) {
        struct amb_listener *listener = &http->listeners[http->listener_count++];
        char address[512];
        listener->url = config->doors.items[i];
        enum amb_status status = amb_door_socket(listener, error, error_size);
        if (status != AMB_OK) {
            return status;
        }
        http->asked.urls[http->asked.count++] = config->doors.items[i];
        amb_url_format(&listener->url, address, sizeof(address));
        amb_info("http: %s", address);
    }
    return AMB_OK;
}

static void watch_threads(struct amb_http *http, struct amb_control *control)
{
    amb_pulse_add(&http->health.pulse, &control->inbox);
    for (unsigned i = 0; i < control->shard_count; i++) {
        amb_pulse_add(&http->health.pulse, &control->shards[i]->inbox);
    }
}

static struct amb_http *http_new(const struct amb_config *config, struct amb_control *control,
                                 const struct amb_counters *counters, struct amb_observer *observer)
{
    struct amb_http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        return NULL;
    }
    http->config = amb_config_ref(config);
    http->observer = observer;
    http->stats = control->stats;
    http->front = control->listeners[0].url;
    http->epoll_fd = -1;
    for (unsigned i = 0; i < AMB_HTTP_CONNECTIONS; i++) {
        http->connections[i].fd = -1;
    }
    amb_counters_view(counters, &http->image);
    http->streams.image = &http->image;
    http->streams.stats = http->stats;
    http->tables.control = control;
    watch_threads(http, control);
    return http;
}

static void close_listeners(struct amb_http *http)
{
    for (unsigned i = 0; i < http->listener_count; i++) {
        if (http->listeners[i].fd >= 0) {
            amb_door_remove(&http->listeners[i]);
            (void)close(http->listeners[i].fd);
        }
    }
    http->listener_count = http->asked.count = 0;
}

static enum amb_status http_open(struct amb_http *http, char *error, size_t error_size)
{
    const struct amb_config_http *config = &http->config->http;
    enum amb_status status = open_all(http, error, error_size);
    if (status != AMB_OK && !http->config->http.is_auto) {
        return status;
    }
    if (status != AMB_OK) { /* A reload may bring others. */
        close_listeners(http);
        amb_warn("http: none: %s", error);
        error[0] = '\0';
    }
    amb_http_name_all(http);
    if (amb_visits_init(&http->visits, config->token) != AMB_OK ||
        amb_http_page_init(&http->page) != AMB_OK) {
        (void)snprintf(error, error_size, "http: no memory for hashes");
        return AMB_ENOMEM;
    }
    if (!start_daemon(http) || !watch_all(http)) {
        (void)snprintf(error, error_size, "http: no memory or descriptors for it");
        return AMB_ELIMIT;
    }
    return AMB_OK;
}

enum amb_status amb_http_create(const struct amb_config *config, struct amb_control *control,
                                const struct amb_counters *counters, struct amb_observer *observer,
                                char *error, size_t error_size, struct amb_http **out)
{
    *out = NULL;
    struct amb_http *http = http_new(config, control, counters, observer);
    if (http == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = http_open(http, error, error_size);
    if (status == AMB_OK) {
        http->tables.inbox = &observer->inbox;
        observer->guest = (struct amb_observer_guest){
            .fd = http->epoll_fd, .turn = turn, .arg = http, .visit = amb_http_visit};
        *out = http;
        return AMB_OK;
    }
    amb_http_destroy(&http);
    if (!config->http.is_auto) {
        return status;
    }
    amb_warn("http: none: %s", error);
    error[0] = '\0';
    return AMB_OK;
}

const char *amb_http_urls(const struct amb_http *http)
{
    return http == NULL ? "" : http->urls;
}

void amb_http_destroy(struct amb_http **http)
{
    struct amb_http *h = *http;
    if (h == NULL) {
        return;
    }
    *http = NULL;
    close_listeners(h);
    amb_pulse_end(&h->health.pulse); /* A request may still be read below, as /healthz. */
    if (h->daemon != NULL) {
        amb_streams_end(&h->streams);
        amb_tables_end(&h->tables);
        for (unsigned i = 0; i < LAST_TURNS; i++) {
            (void)MHD_run(h->daemon); /* A stream has an end that its reader understands. */
        }
        MHD_stop_daemon(h->daemon);
    }
    amb_http_connections_close(h);
    if (h->epoll_fd >= 0) {
        (void)close(h->epoll_fd);
    }
    amb_config_unref(&h->config);
    free(h);
}
