/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker as a service, for the doctor: its watchdog, and a configuration file that is newer
 * than what holds.
 * Threads: the control thread for the watchdog, that of doctor_files.h for the file, or the main
 * one before a start. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_doctor_service {
    bool is_managed;    /* a service manager has started it */
    bool has_watchdog;  /* ... and looks after it */
    const char *config; /* the file of the configuration in force; NULL: there is none */
    int64_t config_ns;  /* ... when it was written, as it was read */
};

void amb_doctor_service(const struct amb_doctor_service *look, json_t *rows);
