/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/shown.h"

/* The second byte after some first ones: shorter spellings, halves of UTF-16, beyond U+10FFFF. */
static bool is_well_formed(const unsigned char *at)
{
    switch (at[0]) {
    case 0xe0:
        return at[1] >= 0xa0;
    case 0xed:
        return at[1] < 0xa0;
    case 0xf0:
        return at[1] >= 0x90;
    case 0xf4:
        return at[1] < 0x90;
    default:
        return true;
    }
}

/* Bytes of the character that begins here; 0: it is no well-formed UTF-8. */
static size_t character_len(const unsigned char *at, size_t left)
{
    size_t len = at[0] < 0x80                     ? 1
                 : at[0] >= 0xc2 && at[0] <= 0xdf ? 2
                 : at[0] >= 0xe0 && at[0] <= 0xef ? 3
                 : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                  : 0;
    if (len > left) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len < 2 || is_well_formed(at) ? len : 0;
}

static bool is_control(const unsigned char *at, size_t len)
{
    return (len == 1 && (at[0] < 0x20 || at[0] == 0x7f)) ||
           (len == 2 && at[0] == 0xc2 && at[1] < 0xa0);
}

void amb_shown_put(FILE *out, const void *bytes, size_t len, bool keeps_lines)
{
    const unsigned char *at = bytes;
    while (len > 0) {
        size_t here = character_len(at, len);
        bool is_line = keeps_lines && (at[0] == '\n' || at[0] == '\t');
        if (here == 0 || (is_control(at, here) && !is_line)) {
            (void)fputc('.', out);
            here = here == 0 ? 1 : here;
        } else {
            (void)fwrite(at, 1, here, out);
        }
        at += here;
        len -= here;
    }
}

bool amb_shown_is_text(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    while (len > 0) {
        size_t here = character_len(at, len);
        bool is_line = at[0] == '\n' || at[0] == '\t' || at[0] == '\r';
        if (here == 0 || (is_control(at, here) && !is_line)) {
            return false;
        }
        at += here;
        len -= here;
    }
    return true;
}

size_t amb_shown_cut(const void *bytes, size_t len, size_t max)
{
    const unsigned char *at = bytes;
    if (len <= max) {
        return len;
    }
    while (max > 0 && (at[max] & 0xc0) == 0x80) {
        max--;
    }
    return max;
}
