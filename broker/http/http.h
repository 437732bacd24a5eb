/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of HTTP: health and metrics for probes and Prometheus. It is a guest of the observer's
 * thread, and reads the counters alone. libmicrohttpd has the protocol; this has the sockets, their
 * limits, and the answers.
 *
 *   listeners ─ accept ─► 64 connections ─► libmicrohttpd ─► request ─► answer
 *
 * Threads: create and destroy where the broker starts and stops; the rest in the observer's.
 * Memory: 32 KiB a connection, and the text of an answer.
 */
#pragma once

#include "wire/base/status.h"

#include <stddef.h>

struct amb_config;
struct amb_control;
struct amb_counters;
struct amb_http;
struct amb_observer;

/* Opens the listeners of config->http, and is the observer's guest from its start on. *out is NULL
 * where there can be none. Listeners that nobody asked for are left out where they cannot be. Else:
 * EUNREACHABLE: an address is in use, or cannot be had. EINVAL: built without HTTP. On failure
 * error holds a sentence. */
AMB_MUST_CHECK enum amb_status amb_http_create(const struct amb_config *config,
                                               struct amb_control *control,
                                               const struct amb_counters *counters,
                                               struct amb_observer *observer, char *error,
                                               size_t error_size, struct amb_http **out);
/* "http://127.0.0.1:9464 ..." of the listeners on TCP, with their real ports, as they were at
 * start; "": none. */
const char *amb_http_urls(const struct amb_http *http);
/* After the observer, and after all threads whose inboxes it may have posted to. NULL is allowed.
 */
void amb_http_destroy(struct amb_http **http);
