/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters of UTF-8 (RFC 3629) in bytes of strangers.
 * Threads: any. Memory: pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest character. A text that ends with a NUL may be read with this as `left`. */
#define AMB_UTF8_MAX 4u

/* Bytes of the character at `bytes` (left >= 1 of them), and its *code. 0: it is none. Then it is
 * cut off, overlong, a surrogate, or past U+10FFFF, and *code is as it was. */
static inline size_t amb_utf8_decode(const void *bytes, size_t left, uint32_t *code)
{
    static const uint32_t smallest[AMB_UTF8_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *p = (const uint8_t *)bytes;
    size_t len;
    uint32_t c;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    if ((p[0] & 0xe0) == 0xc0) {
        len = 2;
        c = p[0] & 0x1fu;
    } else if ((p[0] & 0xf0) == 0xe0) {
        len = 3;
        c = p[0] & 0x0fu;
    } else if ((p[0] & 0xf8) == 0xf0) {
        len = 4;
        c = p[0] & 0x07u;
    } else {
        return 0;
    }
    if (len > left) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < smallest[len] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff) {
        return 0;
    }
    *code = c;
    return len;
}

/* Of both sets of control characters, or DEL. */
static inline bool amb_utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}
