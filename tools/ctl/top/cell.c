/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/cell.h"

#include "tools/common/units.h"
#include "wire/base/utf8.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#define MARKS_MAX 2u /* accents on one character; more would climb over lines */
#define SPELLED_MAX 12u

/* Characters without a picture, which move or hide those beside them. */
static bool is_mover(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } movers[] = {
        {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160}, {0x17b4, 0x17b5},
        {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},
        {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof(movers) / sizeof(movers[0]); i++) {
        if (code >= movers[i].first && code <= movers[i].last) {
            return true;
        }
    }
    return false;
}

/* One character, or a byte that is none, as it is shown. */
struct glyph {
    char text[SPELLED_MAX + 1];
    size_t len, width; /* bytes and places; a mark on the one before has no place */
};

/* After a snprintf of ASCII alone. */
static void set_spelled(struct glyph *glyph, int len)
{
    glyph->len = glyph->width = (size_t)len;
}

/* marks: how many stand on the character before; MARKS_MAX: no more go on it. Returns the bytes
 * read. */
static size_t take(const char *text, size_t left, bool has_utf8, unsigned *marks,
                   struct glyph *glyph)
{
    char *out = glyph->text;
    const size_t size = sizeof(glyph->text);
    uint32_t code = 0;
    size_t here = amb_utf8_decode(text, left, &code);
    int width = here == 0 || !has_utf8 ? -1 : wcwidth((wchar_t)code);
    bool is_mark = width == 0 && *marks < MARKS_MAX && !is_mover(code);
    if (here == 0) {
        set_spelled(glyph, snprintf(out, size, "\\x%02x", (unsigned char)text[0]));
    } else if (code == '\\') {
        set_spelled(glyph, snprintf(out, size, "\\\\"));
    } else if (code >= 0x20 && code < 0x7f) {
        set_spelled(glyph, snprintf(out, size, "%c", (int)code));
    } else if (code < 0x80) {
        set_spelled(glyph, snprintf(out, size, "\\x%02x", code));
    } else if ((width > 0 && !is_mover(code)) || is_mark) {
        memcpy(out, text, here);
        glyph->len = here;
        glyph->width = (size_t)width;
    } else {
        set_spelled(glyph, code > 0xffff ? snprintf(out, size, "\\U%08x", code)
                                         : snprintf(out, size, "\\u%04x", code));
    }
    bool is_picture = here != 0 && glyph->width > 0 && glyph->text[0] != '\\';
    *marks = is_mark ? *marks + 1 : is_picture ? 0 : MARKS_MAX;
    return here == 0 ? 1 : here;
}

size_t amb_top_text(const char *text, size_t width, bool has_utf8, char *out, size_t size)
{
    size_t left = strlen(text), used = 0, places = 0;
    /* The end of what would still leave a place for '~'. */
    size_t cut_used = 0, cut_places = 0;
    unsigned marks = MARKS_MAX;
    while (left > 0) {
        struct glyph glyph;
        size_t read = take(text, left, has_utf8, &marks, &glyph);
        if (places + glyph.width > width || used + glyph.len + 2 > size) {
            out[cut_used] = width > 0 ? '~' : '\0';
            out[cut_used + (width > 0)] = '\0';
            return cut_places + (width > 0);
        }
        memcpy(out + used, glyph.text, glyph.len);
        used += glyph.len;
        places += glyph.width;
        if (places < width) {
            cut_used = used;
            cut_places = places;
        }
        text += read;
        left -= read;
    }
    out[used] = '\0';
    return places;
}

void amb_top_number(enum amb_top_kind kind, double value, char *out, size_t size)
{
    switch (kind) {
    case AMB_TOP_BYTES:
    case AMB_TOP_BYTE_RATE:
        amb_units_format_bytes(value, out, size);
        break;
    case AMB_TOP_NS:
        amb_units_format_ns(value, out, size);
        break;
    case AMB_TOP_RATE:
        if (value > 0 && value < 100) { /* A message every ten seconds is no 0. */
            (void)snprintf(out, size, "%.3g", value);
            break;
        }
        amb_units_format_count(value, out, size);
        break;
    case AMB_TOP_TEXT:
    case AMB_TOP_NUMBER:
        (void)snprintf(out, size, "%.0f", value);
        break;
    case AMB_TOP_COUNT:
        if (fabs(value) < 1e9) {
            (void)snprintf(out, size, "%.0f", value);
        } else {
            amb_units_format_count(value, out, size);
        }
        break;
    }
}
