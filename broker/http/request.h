/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of HTTP, judged by its texts alone: method, target, query, headers.
 *
 * Threads: any. Memory: pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum amb_http_route {
    AMB_HTTP_NOTHING, /* no such path */
    AMB_HTTP_HEALTH,
    AMB_HTTP_READY,
    AMB_HTTP_METRICS,
    AMB_HTTP_PER_OBJECT, /* its answer names objects */
    AMB_HTTP_VIEW,       /* ... the same */
    AMB_HTTP_EVENTS,     /* ... the same */
    AMB_HTTP_PAGE,       /* it shows them */
};

/* The names by which requests may call this broker; all from the configuration or the system. */
struct amb_http_names {
    const char *const *items;
    size_t count;
};

/* GET or HEAD. */
bool amb_http_is_method(const char *method);
/* target: as it came, with its query, which the route takes or not. */
enum amb_http_route amb_http_route_of(const char *target);
/* Is it for those alone who may see names of objects? */
bool amb_http_route_needs_key(enum amb_http_route route);
/* The view that a target of AMB_HTTP_VIEW names, behind its prefix. */
const char *amb_http_view_of(const char *target);
/* The value of an argument without its escapes. False: it has a control character, or half an
 * escape, or does not fit. */
bool amb_http_unescape(const char *value, char *out, size_t size);
/* Adds " KEY=VALUE" to a query of views, without the escapes of the value. False: the value is none
 * of a query, or the query is full. query: `size` bytes, ends with a NUL. */
bool amb_http_query_add(char *query, size_t size, const char *key, const char *value);
/* Is the value of Authorization (NULL: there is none) this key, as bearer? Takes as long for each
 * wrong one of the same length. */
bool amb_http_has_key(const char *authorization, const char *key);
/* Is the value of Host an address, localhost, or one of the names? A port may stand behind it. A
 * page of another site can have its own name lead here, but not these (DNS rebinding). */
bool amb_http_host_is_ours(const char *host, const struct amb_http_names *names);
/* Does the value of Accept (NULL: there is none) ask for OpenMetrics? */
bool amb_http_wants_openmetrics(const char *accept);
