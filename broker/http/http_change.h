/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another configuration of HTTP while requests are answered. Its listeners are opened where the
 * reload is, so that one that cannot be refuses it. The observer puts them in place between two
 * turns.
 *
 * Threads: one at a time, that reloads. Memory: a change is one allocation until it is in place.
 */
#pragma once

#include "wire/base/status.h"

#include <stddef.h>

struct amb_config;
struct amb_http;
struct amb_http_change;

/* The listeners and rules of another configuration, for amb_http_use or amb_http_drop. Those that
 * are open already stay so. http may be NULL. On failure nothing has changed, and error holds a
 * sentence. One thread at a time. May block as long as a name is looked up. */
AMB_MUST_CHECK enum amb_status amb_http_prepare(const struct amb_http *http,
                                                const struct amb_config *config, char *error,
                                                size_t error_size, struct amb_http_change **out);
/* Puts it in place of the former one, soon. The same thread, or none beside it; *change may be
 * NULL, and is then. */
void amb_http_use(struct amb_http *http, struct amb_http_change **change);
/* The same, but nothing changes. */
void amb_http_drop(struct amb_http_change **change);
