/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a message in JSON, which has text alone. Text stays as it is. All else is base64, under
 * a name that says so. Either can be decoded to the bytes that were sent.
 * Threads: any. Memory: the caller's reference.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define AMB_BYTES_JSON_MAX ((size_t)1 << 30) /* bytes that one value can have */

/* Adds NAME, or NAME_base64, with at most `max` bytes (up to AMB_BYTES_JSON_MAX). A part alone adds
 * NAME_cut, which is true. Text is cut between characters. False: no memory. */
bool amb_bytes_json(json_t *object, const char *name, const void *bytes, size_t len, size_t max);
