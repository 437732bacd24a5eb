/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of this process: read at start, read again, compared with another file, set in
 * part. All of it is as a whole or not at all.
 *
 *   source: file, environment, options, what was set ─► another configuration ─► changes
 *                                                     all of them live ─► in force
 *
 * Threads: the main thread until the broker runs, then one thread at a time (signals).
 * Memory: two configurations, and the values that were set.
 */
#pragma once

#include "broker/config/config.h"

#include <jansson.h>

struct amb_broker;

#define AMB_SETTINGS_SET_MAX 64u /* keys that `config set` has set */
#define AMB_SETTINGS_TEXT_MAX 3136u

struct amb_settings {
    struct amb_config_machine machine; /* as it was at start: see amb_settings_load */
    struct amb_config_source source;
    struct amb_config *config; /* in force */
    struct amb_config *first;  /* that the broker was started with; NULL: it is that one */
    char *set[AMB_SETTINGS_SET_MAX];
    size_t set_count;
};

/* The end of one of the calls below. */
struct amb_settings_result {
    bool is_good;
    char text[AMB_SETTINGS_TEXT_MAX]; /* one line */
    json_t *rows; /* the caller's: changes with key, was, becomes, applies and place; or refusals
                     with place, key, why, was and becomes. NULL: no memory */
};

/* Reads and checks everything that can be wrong before a socket opens; settings->config is it.
 * machine and source are set; source.faults, where it is, gets all faults of the keys. The numbers
 * that "auto" has become stay in use, whatever has been done to our quotas since: so reloads see
 * the same machine. */
AMB_MUST_CHECK enum amb_status amb_settings_load(struct amb_settings *settings, char *error,
                                                 size_t error_size);
/* The lines of the log are as log.format has it. */
void amb_settings_use_format(const struct amb_config *config);
/* Reads all again. */
void amb_settings_reload(struct amb_settings *settings, struct amb_broker *broker,
                         struct amb_settings_result *out);
/* The changes that the file would make in place of the one there is. is_test: its faults are asked
 * for, and a change that needs a restart is none. */
void amb_settings_compare(const struct amb_settings *settings, const char *path, bool is_test,
                          struct amb_settings_result *out);
/* "key=value", above all layers, until the process ends. */
void amb_settings_set(struct amb_settings *settings, struct amb_broker *broker, const char *text,
                      struct amb_settings_result *out);
/* Rows of key, value and origin. */
void amb_settings_show(const struct amb_settings *settings, bool are_defaults,
                       struct amb_settings_result *out);
void amb_settings_fini(struct amb_settings *settings);
