/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message's properties as one blob: entries of
 *   { u8 name_len, u8 type, u16 value_len (LE), name, NUL, value, NUL }
 * one behind the other. NULs let a reader hand out names and text values as C strings in place.
 * Names that begin with '$' belong to the library: "$key", "$content-type", "$tensor".
 * Threads: any. Memory: never allocates.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_PROP_NAME_MAX 255u
#define AMB_PROP_KEY "$key"
#define AMB_PROP_CONTENT_TYPE "$content-type"
#define AMB_PROP_TENSOR "$tensor"

enum amb_prop_type {
    AMB_PROP_BYTES = 0, /* the only type so far; others are refused */
};

struct amb_props_writer {
    uint8_t *out;
    size_t cap, len;
};

void amb_props_writer_init(struct amb_props_writer *writer, uint8_t *out, size_t cap);
/* ETOOLARGE if it does not fit, EINVAL for an empty, too long or NUL-holding name. */
AMB_MUST_CHECK enum amb_status amb_props_add(struct amb_props_writer *writer, const char *name,
                                             const void *value, size_t value_len);

struct amb_prop_view {
    const char *name;     /* NUL-terminated */
    const uint8_t *value; /* NUL-terminated behind value_len */
    size_t name_len, value_len;
    uint8_t type;
};

/* True if blob is a whole number of well-formed entries. */
bool amb_props_check(const uint8_t *blob, size_t len);
/* Of a checked blob: the entry at *pos, which moves on; false at the end. Start with *pos = 0. */
bool amb_props_next(const uint8_t *blob, size_t len, size_t *pos, struct amb_prop_view *out);
bool amb_props_find(const uint8_t *blob, size_t len, const char *name, struct amb_prop_view *out);
