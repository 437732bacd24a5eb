/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/forms.h"

#include "tools/common/units.h"

#include <stdio.h>
#include <string.h>

#define PART_MAX 32u /* bytes of a number in a form */

/* The text behind a prefix; NULL: it has another one. */
static const char *behind(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

bool amb_form_place_read(const char *text, struct amb_form_place *out)
{
    static const struct {
        const char *name;
        enum amb_start start;
    } places[] = {{"new", AMB_START_NEW}, {"first", AMB_START_FIRST}, {"last", AMB_START_LAST}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(text, places[i].name) == 0) {
            *out = (struct amb_form_place){.start = places[i].start};
            return true;
        }
    }
    struct amb_form_place place = {.start = AMB_START_LAST_N};
    const char *rest = behind(text, "last:");
    if (rest == NULL && (rest = behind(text, "seq:")) != NULL) {
        place.start = AMB_START_SEQ;
    }
    bool is_good = rest != NULL && amb_units_count(rest, UINT64_MAX / 2, &place.number);
    if (rest == NULL && (rest = behind(text, "ago:")) != NULL) {
        place.start = AMB_START_TIME;
        is_good = amb_units_duration(rest, &place.ago_ns);
    }
    if (rest == NULL && (rest = behind(text, "file:")) != NULL) {
        place.start = AMB_START_POSITION;
        place.file = rest;
        is_good = rest[0] != '\0';
    }
    if (is_good) {
        *out = place;
    }
    return is_good;
}

const char *amb_form_place_fault(const char *text)
{
    struct amb_form_place place;
    return amb_form_place_read(text, &place) ? NULL
                                             : "new, first, last, last:N, seq:N, ago:T or file:F";
}

uint64_t amb_form_place_since(const struct amb_form_place *place, int64_t now_ns)
{
    return place->ago_ns < now_ns ? (uint64_t)(now_ns - place->ago_ns) : 0;
}

/* The part of a text before its end, as a text of its own. False: it is too long, or empty. */
static bool cut(const char *text, size_t len, char out[PART_MAX])
{
    if (len == 0 || len >= PART_MAX) {
        return false;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

bool amb_form_range_read(const char *text, uint64_t *offset, uint64_t *len)
{
    char part[PART_MAX];
    uint64_t from, count;
    const char *colon = strchr(text, ':');
    if (colon == NULL || !cut(text, (size_t)(colon - text), part) || !amb_units_size(part, &from) ||
        !amb_units_size(colon + 1, &count) || count == 0 || count > SIZE_MAX / 2) {
        return false;
    }
    *offset = from;
    *len = count;
    return true;
}

const char *amb_form_range_fault(const char *text)
{
    uint64_t offset, len;
    return amb_form_range_read(text, &offset, &len) ? NULL : "OFFSET:LEN, as 0:16 or 1M:4K";
}

bool amb_form_backoff_read(const char *text, int64_t out_ns[AMB_FORM_BACKOFF_MAX], uint32_t *count)
{
    char part[PART_MAX];
    for (uint32_t n = 0; n < AMB_FORM_BACKOFF_MAX; text++) {
        size_t len = strcspn(text, ",");
        if (!cut(text, len, part) || !amb_units_duration(part, &out_ns[n++])) {
            return false;
        }
        text += len;
        if (*text == '\0') {
            *count = n;
            return true;
        }
    }
    return false;
}

const char *amb_form_backoff_fault(const char *text)
{
    int64_t ns[AMB_FORM_BACKOFF_MAX];
    uint32_t count;
    return amb_form_backoff_read(text, ns, &count) ? NULL : "up to 16 times, as 1,10,1m";
}

const char *amb_form_word_fault(const char *text)
{
    return text[0] == '\0' || strchr(text, ' ') != NULL ? "a word" : NULL;
}

static bool is_pair(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals != NULL && equals != text;
}

const char *amb_form_pair_fault(const char *text)
{
    return is_pair(text) ? NULL : "NAME=VALUE";
}

const char *amb_form_key_fault(const char *text)
{
    return is_pair(text) ? NULL : "KEY=VALUE, as server.workers=2";
}

bool amb_form_format_next(const char **at, struct amb_form_piece *out)
{
    static const char escapes[] = "ntr0\\", bytes[] = "\n\t\r\0\\";
    const char *text = *at, *found;
    if (text[0] == '\0') {
        return false;
    }
    if (text[0] == '%' && text[1] == '%') {
        *out = (struct amb_form_piece){.text = text, .len = 1};
    } else if (text[0] == '%') {
        if (text[1] == '\0' || strchr(AMB_FORM_FIELDS, text[1]) == NULL) {
            return false;
        }
        *out = (struct amb_form_piece){.field = text[1]};
    } else if (text[0] == '\\') {
        if (text[1] == '\0' || (found = strchr(escapes, text[1])) == NULL) {
            return false;
        }
        *out = (struct amb_form_piece){.text = &bytes[found - escapes], .len = 1};
    } else {
        *out = (struct amb_form_piece){.text = text, .len = strcspn(text, "%\\")};
        *at += out->len;
        return true;
    }
    *at += 2;
    return true;
}

const char *amb_form_format_fault(const char *text)
{
    static _Thread_local char fault[160];
    struct amb_form_piece piece;
    const char *at = text;
    while (amb_form_format_next(&at, &piece)) {
    }
    if (at != text && *at == '\0') {
        return NULL;
    }
    int len =
        snprintf(fault, sizeof(fault),
                 "a text with %%t %%p %%x %%l %%s %%k %%P %%I %%h %%%% \\n \\t \\r \\0 or \\\\");
    if (*at != '\0') {
        (void)snprintf(fault + len, sizeof(fault) - (size_t)len, "; position %zu has none of them",
                       (size_t)(at - text) + 1);
    }
    return fault;
}
