/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/shown.h"

#include "wire/base/utf8.h"

#include <string.h>

void amb_shown_put(FILE *out, const void *bytes, size_t len, bool keeps_lines)
{
    const unsigned char *at = bytes;
    uint32_t code = 0;
    while (len > 0) {
        size_t here = amb_utf8_decode(at, len, &code);
        bool is_line = keeps_lines && (at[0] == '\n' || at[0] == '\t');
        if (here == 0 || (amb_utf8_is_control(code) && !is_line)) {
            (void)fputc('.', out);
            here = here == 0 ? 1 : here;
        } else {
            (void)fwrite(at, 1, here, out);
        }
        at += here;
        len -= here;
    }
}

void amb_shown_clean(char *text)
{
    uint32_t code = 0;
    for (size_t left = strlen(text); left > 0;) {
        size_t here = amb_utf8_decode(text, left, &code);
        if (here == 0 || amb_utf8_is_control(code)) {
            here = here == 0 ? 1 : here;
            memset(text, '?', here);
        }
        text += here;
        left -= here;
    }
}

bool amb_shown_is_text(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint32_t code = 0;
    while (len > 0) {
        size_t here = amb_utf8_decode(at, len, &code);
        bool is_line = at[0] == '\n' || at[0] == '\t' || at[0] == '\r';
        if (here == 0 || (amb_utf8_is_control(code) && !is_line)) {
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
