/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor before a start (brokerd --doctor): the configuration given, against this machine. It
 * opens no socket, no device and no port, loads no UCX and no driver, and changes nothing.
 *
 * Threads: the main one. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>

struct amb_config;

/* Appends all rows. config NULL: it is wrong, and `fault` says why; else fault is NULL. */
void amb_doctor_start(const struct amb_config *config, const char *fault, json_t *rows);
/* Appends a finding of the configuration's fault, "file:line: key: reason", by its key. */
void amb_doctor_fault(const char *fault, json_t *rows);
