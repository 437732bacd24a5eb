/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of TLS, for `broker-ctl doctor`: those that expire, and those that were written after
 * they were read.
 * Threads: that of doctor_files.h, or the main one before a start. Blocks for the file system.
 * Memory: JSON, the caller's.
 */
#pragma once

#include "wire/tls/tls_context.h"

#include <jansson.h>

/* Appends rows for the files in use; nothing without TLS (NULL). */
void amb_doctor_tls(const struct amb_tls_context *context, int64_t now_s, json_t *rows);
