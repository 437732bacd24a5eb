/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effective configuration as libconfig text, and the differences between two.
 * Threads: any. Memory: none.
 */
#pragma once

#include "broker/config/config.h"

/* libconfig text that gives the same configuration, each key with its origin. Hides the token. */
void amb_config_print(const struct amb_config *config, FILE *out);
/*
 * The keys that a reload would change, separated by ", ", in two lists: those that need a restart,
 * and the others. Each has its values, and the place of the new one: "limits.window 8M -> 1M
 * (broker.conf:3)". Both lists are NUL-terminated, and cut with "..." where too long.
 */
void amb_config_diff(const struct amb_config *before, const struct amb_config *after, char *restart,
                     size_t restart_size, char *live, size_t live_size);
