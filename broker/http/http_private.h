/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this room alone.
 *
 * Threads: the observer. Memory: struct amb_http is one allocation.
 */
#pragma once

#include "broker/config/config.h"
#include "broker/control/clients/control.h"
#include "broker/count/counters.h"
#include "broker/http/health.h"
#include "broker/http/page.h"
#include "broker/http/request.h"
#include "broker/http/stream.h"
#include "broker/http/table.h"
#include "broker/observe/observer.h"
#include "wire/auth/visits.h"

#include <microhttpd.h>

#define AMB_HTTP_NAMES_MAX 32u
#define AMB_HTTP_HEAD_MAX 8192u /* bytes of a request's line and headers */
#define AMB_HTTP_URLS_MAX 3072u

#define AMB_HTTP_PROGRESS_S 10u

/* The data of an event of epoll_fd: its place. */
enum {
    AMB_HTTP_AT_DAEMON,
    AMB_HTTP_AT_LISTENERS,
    AMB_HTTP_AT_CONNECTIONS = AMB_HTTP_AT_LISTENERS + AMB_HTTP_LISTENERS_MAX,
};

/* One connection, which has one request: libmicrohttpd closes it behind the answer. */
struct amb_http_connection {
    int fd; /* -1: free */
    bool is_unix;
    bool is_waiting;  /* for its head; else it is libmicrohttpd's */
    int64_t since_ns; /* when it came, or was handed over; 0: its head has been read */
};

/* One request of a connection. */
struct amb_http_request {
    struct amb_http *http;
    struct MHD_Connection *connection;
    const char *method, *target;
    bool is_unix;
};

struct amb_http {
    const struct amb_config *config; /* a reference */
    struct amb_observer *observer;
    struct {
        struct amb_url urls[AMB_HTTP_LISTENERS_MAX]; /* as they were written, */
        unsigned count;
    } asked; /* ... of the listeners, for the thread that reloads alone */
    struct amb_broker_stats *stats;
    struct amb_counters_image image;
    struct MHD_Daemon *daemon;
    int epoll_fd;
    struct amb_listener listeners[AMB_HTTP_LISTENERS_MAX];
    unsigned listener_count;
    bool is_paused; /* no descriptors, until then: */
    int64_t resume_ns, tick_ns;
    struct amb_http_connection connections[AMB_HTTP_CONNECTIONS];
    unsigned connection_count;
    struct amb_http_names names;
    const char *name_items[AMB_HTTP_NAMES_MAX];
    char machine[256];
    char peeked[AMB_HTTP_HEAD_MAX + 1];
    struct amb_url front; /* the broker's first listener, with its real port */
    struct amb_health health;
    struct amb_streams streams;
    struct amb_tables tables;
    struct amb_visits visits;
    struct amb_http_page page;
    char urls[AMB_HTTP_URLS_MAX]; /* as they were at start */
};

/* False: there are no descriptors for it. */
bool amb_http_watch(const struct amb_http *http, int fd, uint32_t place);
/* The names that requests over TCP may call this broker by. */
void amb_http_name_all(struct amb_http *http);
