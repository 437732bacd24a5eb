/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool number_starts(const char *text)
{
    return text != NULL && (isdigit((unsigned char)text[0]) != 0 || text[0] == '.');
}

bool amb_units_count(const char *text, uint64_t max, uint64_t *out)
{
    if (text == NULL || isdigit((unsigned char)text[0]) == 0) {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value > max) {
        return false;
    }
    *out = value;
    return true;
}

bool amb_units_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {
        {"", 0},     {"b", 0},  {"k", 10},  {"kb", 10},  {"kib", 10}, {"m", 20},   {"mb", 20},
        {"mib", 20}, {"g", 30}, {"gb", 30}, {"gib", 30}, {"t", 40},   {"tib", 40},
    };
    if (text == NULL || isdigit((unsigned char)text[0]) == 0) {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0) {
        return false;
    }
    while (*end == ' ') {
        end++;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcasecmp(end, units[i].suffix) == 0) {
            if (value > (UINT64_MAX >> units[i].shift)) {
                return false;
            }
            *out = (uint64_t)value << units[i].shift;
            return true;
        }
    }
    return false;
}

bool amb_units_duration(const char *text, int64_t *out_ns)
{
    static const struct {
        const char *suffix;
        double ns;
    } units[] = {
        {"", 1e9}, {"s", 1e9},  {"ms", 1e6},   {"us", 1e3},
        {"ns", 1}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9},
    };
    if (text != NULL && strcasecmp(text, "forever") == 0) {
        *out_ns = INT64_MAX;
        return true;
    }
    if (!number_starts(text)) {
        return false;
    }
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].suffix) == 0) {
            double ns = value * units[i].ns;
            /* 9e18 is below INT64_MAX, which is kept for "forever". */
            if (!(ns >= 0 && ns < 9e18)) {
                return false;
            }
            *out_ns = (int64_t)ns;
            return true;
        }
    }
    return false;
}

bool amb_units_rate(const char *text, double *out)
{
    if (!number_starts(text)) {
        return false;
    }
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0' || !(value > 0 && value < 1e12)) {
        return false;
    }
    *out = value;
    return true;
}

int64_t amb_units_whole(double value)
{
    /* 2^63: the nearest number above INT64_MAX. */
    const double end = 9223372036854775808.0;
    if (!(value < end)) {
        return INT64_MAX;
    }
    return value < -end ? INT64_MIN : (int64_t)value;
}

/* Scales by `step` until the number is below it, then prints 3 significant digits. */
static void format_scaled(double value, double step, const char *const *units, size_t count,
                          char *out, size_t size)
{
    size_t i = 0;
    while (i + 1 < count && fabs(value) >= step * 0.9995) {
        value /= step;
        i++;
    }
    int digits = i == 0 || fabs(value) >= 99.95 ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    (void)snprintf(out, size, "%.*f%s%s", digits, value, units[i][0] == '\0' ? "" : " ", units[i]);
}

void amb_units_format_bytes(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    format_scaled(bytes, 1024, units, sizeof(units) / sizeof(units[0]), out, size);
}

void amb_units_format_count(double count, char *out, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    format_scaled(count, 1000, units, sizeof(units) / sizeof(units[0]), out, size);
}

void amb_units_format_ns(double ns, char *out, size_t size)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double minutes = floor(ns / 60e9);
    if (minutes >= 2 * 24 * 60) {
        (void)snprintf(out, size, "%.0f d %.0f h", floor(minutes / 1440),
                       floor(fmod(minutes, 1440) / 60));
    } else if (minutes >= 120) {
        (void)snprintf(out, size, "%.0f h %.0f min", floor(minutes / 60), fmod(minutes, 60));
    } else if (minutes >= 2) {
        (void)snprintf(out, size, "%.0f min %.0f s", minutes, floor(fmod(ns / 1e9, 60)));
    } else {
        format_scaled(ns, 1000, units, sizeof(units) / sizeof(units[0]), out, size);
    }
}
