/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/props.h"
#include "wire/base/assert.h"

#include <string.h>

#define ENTRY_HEAD 4u
#define VALUE_MAX 65535u

void amb_props_writer_init(struct amb_props_writer *writer, uint8_t *out, size_t cap)
{
    *writer = (struct amb_props_writer){.out = out, .cap = cap};
}

enum amb_status amb_props_add(struct amb_props_writer *writer, const char *name, const void *value,
                              size_t value_len)
{
    size_t name_len = name != NULL ? strlen(name) : 0;
    if (name_len == 0 || name_len > AMB_PROP_NAME_MAX || (value == NULL && value_len != 0)) {
        return AMB_EINVAL;
    }
    size_t room = writer->cap - writer->len;
    size_t fixed = ENTRY_HEAD + name_len + 2; /* and two NULs */
    if (value_len > VALUE_MAX || fixed > room || value_len > room - fixed) {
        return AMB_ETOOLARGE;
    }
    uint8_t *at = writer->out + writer->len;
    at[0] = (uint8_t)name_len;
    at[1] = AMB_PROP_BYTES;
    at[2] = (uint8_t)(value_len & 0xff);
    at[3] = (uint8_t)(value_len >> 8);
    memcpy(at + ENTRY_HEAD, name, name_len + 1);
    uint8_t *to = at + ENTRY_HEAD + name_len + 1;
    if (value_len > 0) {
        memcpy(to, value, value_len);
    }
    to[value_len] = 0;
    writer->len += fixed + value_len;
    return AMB_OK;
}

/* The entry at *pos if it is whole and well formed; *pos moves behind it. */
static bool read_entry(const uint8_t *blob, size_t len, size_t *pos, struct amb_prop_view *out)
{
    size_t left = len - *pos;
    if (left < ENTRY_HEAD) {
        return false;
    }
    const uint8_t *at = blob + *pos;
    size_t name_len = at[0];
    size_t value_len = at[2] | (size_t)at[3] << 8;
    size_t size = ENTRY_HEAD + name_len + 1 + value_len + 1;
    if (name_len == 0 || at[1] != AMB_PROP_BYTES || size > left) {
        return false;
    }
    const uint8_t *name = at + ENTRY_HEAD;
    const uint8_t *value = name + name_len + 1;
    if (memchr(name, 0, name_len) != NULL || name[name_len] != 0 || value[value_len] != 0) {
        return false;
    }
    *out = (struct amb_prop_view){
        .name = (const char *)name,
        .value = value,
        .name_len = name_len,
        .value_len = value_len,
        .type = at[1],
    };
    *pos += size;
    return true;
}

bool amb_props_check(const uint8_t *blob, size_t len)
{
    struct amb_prop_view view;
    size_t pos = 0;
    while (pos < len) {
        if (!read_entry(blob, len, &pos, &view)) {
            return false;
        }
    }
    return true;
}

bool amb_props_next(const uint8_t *blob, size_t len, size_t *pos, struct amb_prop_view *out)
{
    amb_assert(*pos <= len);
    return *pos < len && read_entry(blob, len, pos, out);
}

bool amb_props_find(const uint8_t *blob, size_t len, const char *name, struct amb_prop_view *out)
{
    size_t name_len = strlen(name);
    struct amb_prop_view view;
    size_t pos = 0;
    while (amb_props_next(blob, len, &pos, &view)) {
        if (view.name_len == name_len && memcmp(view.name, name, name_len) == 0) {
            *out = view;
            return true;
        }
    }
    return false;
}
