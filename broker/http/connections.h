/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections wait here until their head is there, and are libmicrohttpd's from then on. So a head
 * has a time and a size of its own, however slowly it comes. And a NUL, at which libmicrohttpd
 * would cut a path or a value off, is seen before.
 *
 *   accept ─► waiting: looked at with MSG_PEEK ─► libmicrohttpd: one request, then it is closed
 *
 * Threads: the observer. Memory: those of struct amb_http.
 */
#pragma once

#include <microhttpd.h>
#include <stdint.h>

struct amb_http;

/* Accepts, and hands over those whose head is there. */
void amb_http_connections_turn(struct amb_http *http, int64_t now_ns);
/* Ends those that had no whole head in AMB_HTTP_PROGRESS_S. */
void amb_http_connections_end_slow(struct amb_http *http, int64_t now_ns);
/* Those that libmicrohttpd has not, when all is over. */
void amb_http_connections_close(struct amb_http *http);
/* libmicrohttpd tells of its connections. */
void amb_http_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code);
