/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/text.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DISTANCE_LENGTH_MAX 96u

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: the formatters take the first that divides. */
static const struct unit size_units[] = {
    {"T", UINT64_C(1) << 40},
    {"G", UINT64_C(1) << 30},
    {"M", UINT64_C(1) << 20},
    {"K", UINT64_C(1) << 10},
    {"", 1},
};

static const struct unit time_units[] = {
    {"d", UINT64_C(86400000000000)},
    {"h", UINT64_C(3600000000000)},
    {"m", UINT64_C(60000000000)},
    {"s", (uint64_t)AMB_NS_PER_SEC},
    {"ms", (uint64_t)AMB_NS_PER_MS},
    {"us", (uint64_t)AMB_NS_PER_US},
    {"ns", 1},
};

#define UNITS(table) (sizeof(table) / sizeof((table)[0]))

/* Leading digits; *rest is what follows them. False: none, or more than 64 bits. */
static bool parse_digits(const char *text, uint64_t *out, const char **rest)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    *rest = at;
    return at != text;
}

static bool parse_with_units(const char *text, const struct unit *units, size_t count,
                             uint64_t *out)
{
    uint64_t number;
    const char *rest;
    if (!parse_digits(text, &number, &rest)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rest, units[i].name) != 0) {
            continue;
        }
        if (number > UINT64_MAX / units[i].factor) {
            return false;
        }
        *out = number * units[i].factor;
        return true;
    }
    return false;
}

bool amb_text_parse_count(const char *text, uint64_t *out)
{
    amb_assert(text != NULL && out != NULL);
    uint64_t number;
    const char *rest;
    if (!parse_digits(text, &number, &rest) || *rest != '\0') {
        return false;
    }
    *out = number;
    return true;
}

bool amb_text_parse_size(const char *text, uint64_t *out)
{
    amb_assert(text != NULL && out != NULL);
    return parse_with_units(text, size_units, UNITS(size_units), out);
}

bool amb_text_parse_time(const char *text, int64_t *out_ns)
{
    amb_assert(text != NULL && out_ns != NULL);
    uint64_t ns = 0;
    if (strcmp(text, "0") != 0 && !parse_with_units(text, time_units, UNITS(time_units), &ns)) {
        return false;
    }
    if (ns >= (uint64_t)INT64_MAX) {
        return false;
    }
    *out_ns = (int64_t)ns;
    return true;
}

static void format_with_units(uint64_t value, const struct unit *units, size_t count, char *out,
                              size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (value % units[i].factor == 0) {
            (void)snprintf(out, size, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
            return;
        }
    }
}

void amb_text_format_size(uint64_t bytes, char *out, size_t size)
{
    if (bytes == 0) {
        (void)snprintf(out, size, "0");
        return;
    }
    format_with_units(bytes, size_units, UNITS(size_units), out, size);
}

void amb_text_format_time(int64_t ns, char *out, size_t size)
{
    amb_assert(ns >= 0);
    if (ns == 0) {
        (void)snprintf(out, size, "0");
        return;
    }
    format_with_units((uint64_t)ns, time_units, UNITS(time_units), out, size);
}

void amb_text_format_date(int64_t time_ns, unsigned digits, char *out, size_t size)
{
    time_t seconds = (time_t)(time_ns / AMB_NS_PER_SEC);
    int64_t fraction = time_ns % AMB_NS_PER_SEC;
    struct tm tm = {0};
    char date[AMB_TEXT_MAX] = "";
    (void)gmtime_r(&seconds, &tm); /* Years that 64 bits of nanoseconds have are no error. */
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    for (unsigned i = digits; i < 9; i++) {
        fraction /= 10;
    }
    (void)snprintf(out, size, "%s.%0*dZ", date, (int)digits, (int)fraction);
}

const char *amb_text_show(const char *text, char *out, size_t size)
{
    amb_assert(text != NULL && size >= 8);
    size_t n = 0;
    for (; text[n] != '\0' && n < size - 1; n++) {
        unsigned char c = (unsigned char)text[n];
        out[n] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[n] = '\0';
    if (text[n] != '\0') {
        memcpy(out + size - 4, "...", 4);
    }
    return out;
}

void amb_text_format_hex(const void *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * len] = '\0';
}

bool amb_text_is_visible(const void *text, size_t len)
{
    const unsigned char *bytes = text;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] <= ' ' || bytes[i] > '~') {
            return false;
        }
    }
    return true;
}

bool amb_text_has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return true;
        }
    }
    return false;
}

bool amb_text_list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; *at != '\0';) {
        size_t here = strcspn(at, ",");
        if (here == len && strncmp(at, word, len) == 0) {
            return true;
        }
        at += here + (at[here] == ',');
    }
    return false;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned amb_text_distance(const char *a, const char *b, unsigned limit)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > DISTANCE_LENGTH_MAX || b_len > DISTANCE_LENGTH_MAX) {
        return limit + 1;
    }
    /* Three rows of the usual table; rows[i % 3] is row i. */
    unsigned rows[3][DISTANCE_LENGTH_MAX + 1];
    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned replace = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replace, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], rows[(i + 1) % 3][j - 2] + 1);
            }
        }
    }
    return least(rows[a_len % 3][b_len], limit + 1);
}
