/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker as a service, for the doctor: its watchdog, and a configuration file that is newer
 * than what is in force.
 * Threads: of each call. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_doctor_service {
    bool is_managed;   /* a service manager has started it */
    bool has_watchdog; /* ... and looks after it */
};

/* Appends a row. The control thread, or the main one before a start. */
void amb_doctor_service(const struct amb_doctor_service *look, json_t *rows);
/* path: the file of the configuration in force; NULL: there is none. written_ns: when it had been
 * written, as it was read; since 1970. Appends a row where it is newer now. Blocks for the file
 * system: the thread of doctor_files.h. */
void amb_doctor_config_file(const char *path, int64_t written_ns, json_t *rows);
