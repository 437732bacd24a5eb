/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_units.h"

#include "wire/counters/units.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 4u
#define NAME_MAX_BYTES 256u

/* The end of a name, or a whole one; the first that fits holds. */
static const struct {
    const char *end, *unit;
} units_by_end[] = {
    {"rate_bytes", "bytes/s"},
    {"bytes", "bytes"},
    {"gpu_staged_in", "bytes"},
    {"gpu_staged_out", "bytes"},
    {"_per_s", NULL},
    {"since_s", "unix_s"},
    {"_ns", "ns"},
    {"_s", "s"},
};

static const char *unit_of(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof(units_by_end) / sizeof(units_by_end[0]); i++) {
        size_t end = strlen(units_by_end[i].end);
        if (len >= end && strcmp(name + len - end, units_by_end[i].end) == 0) {
            return units_by_end[i].unit;
        }
    }
    return NULL;
}

/* Inner objects have columns as "a.b". */
static void add_row(json_t *units, json_t *row, const char *prefix, unsigned depth)
{
    const char *key;
    json_t *value;
    json_object_foreach(row, key, value)
    {
        char name[NAME_MAX_BYTES];
        (void)snprintf(name, sizeof(name), "%.120s%.120s", prefix, key);
        const char *unit = json_is_number(value) ? unit_of(name) : NULL;
        if (unit != NULL) {
            (void)json_object_set_new(units, name, json_string(unit));
        } else if (json_is_object(value) && depth < DEPTH_MAX) {
            char inner[NAME_MAX_BYTES + 1];
            (void)snprintf(inner, sizeof(inner), "%s.", name);
            add_row(units, value, inner, depth + 1);
        }
    }
}

void amb_status_units_add(json_t *answer, json_t *rows)
{
    json_t *units = json_object();
    if (rows == NULL) {
        add_row(units, answer, "", 0);
    }
    for (size_t i = 0; i < json_array_size(rows) && i < AMB_STATUS_UNITS_ROWS; i++) {
        add_row(units, json_array_get(rows, i), "", 0);
    }
    (void)json_object_set_new(answer, AMB_COUNTERS_UNITS, units);
}
