/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights to an answer. On a Unix socket its mode has let the peer in. On TCP a request names a host
 * of ours, and answers that name objects need a key. That is the one of http.token_file, one that
 * works once, or the cookie that such a one was turned into.
 *
 * Threads: the observer. Memory: none.
 */
#pragma once

#include "broker/http/http_private.h"

/* 0, or the status of the refusal. *why: static. */
unsigned amb_http_check_head(const struct amb_http_request *request, const char **why);
/* The same. *is_new: it came with a key that works once, and may be given a cookie. */
unsigned amb_http_check_key(const struct amb_http_request *request, enum amb_http_route route,
                            bool *is_new, const char **why);
/* The way of a stream that was let in. */
enum amb_stream_way amb_http_way_of(const struct amb_http_request *request);
/* Closes the ways that are no longer open, of streams that are. */
void amb_http_close_ways(struct amb_http *http);
/* May names of objects be on TCP at all? */
bool amb_http_names_on_tcp(const struct amb_http *http);
