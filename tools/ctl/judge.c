/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/judge.h"

#include "tools/common/units.h"

#include <amb/amb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum unit {
    UNIT_NONE,
    UNIT_SECONDS,
    UNIT_BYTES,
    UNIT_PERCENT,
    UNIT_COUNT,
};

static const struct kind {
    const char *name, *query, *label, *what; /* the last one stands behind the figure */
    enum unit unit;
    double warn, critical;
} kinds[] = {
    [AMB_JUDGE_READY] = {"READY", "status", "clients", "clients", UNIT_NONE, 0, 0},
    [AMB_JUDGE_HEALTH] = {"HEALTH", "workers", "longest_turn", "at most in a turn of a worker",
                          UNIT_SECONDS, 0.1, 1},
    [AMB_JUDGE_LAG] = {"LAG", "subs", "pending", "wait for one subscription", UNIT_BYTES, 67108864,
                       536870912},
    [AMB_JUDGE_MEMORY] = {"MEMORY", "status", "memory", "of memory.host.size", UNIT_PERCENT, 75,
                          90},
    [AMB_JUDGE_LOSS] = {"LOSS", "workers", "lost", "messages lost", UNIT_COUNT, 0, 1000},
    [AMB_JUDGE_QUEUES] = {"QUEUES", "status", "dead_letters", "dead letters", UNIT_COUNT, 0, 100},
};

static const char *const perf_units[] = {"", "s", "B", "%", "c"};

enum amb_judge amb_judge_named(const char *name)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcasecmp(kinds[i].name, name) == 0) {
            return (enum amb_judge)i;
        }
    }
    return AMB_JUDGE_READY;
}

const char *amb_judge_query(enum amb_judge judge)
{
    return kinds[judge].query;
}

void amb_judge_limits(enum amb_judge judge, double *warn, double *critical)
{
    *warn = kinds[judge].warn;
    *critical = kinds[judge].critical;
}

const char *amb_judge_state(enum amb_judge_state state)
{
    static const char *const states[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    return states[state];
}

const char *amb_judge_takes(enum amb_judge judge)
{
    static const char *const takes[] = {"no limit", "a time, as 500ms", "bytes, as 64M",
                                        "a percentage, as 75", "a number"};
    return takes[kinds[judge].unit];
}

bool amb_judge_limit(enum amb_judge judge, const char *text, double *out)
{
    uint64_t number;
    int64_t ns;
    bool is_good = false;
    switch (kinds[judge].unit) {
    case UNIT_NONE:
        break;
    case UNIT_SECONDS:
        is_good = amb_units_duration(text, &ns);
        *out = is_good ? (double)ns / (double)AMB_SEC : *out;
        break;
    case UNIT_BYTES:
        is_good = amb_units_size(text, &number);
        *out = is_good ? (double)number : *out;
        break;
    case UNIT_PERCENT:
        is_good = amb_units_count(text, 100, &number);
        *out = is_good ? (double)number : *out;
        break;
    case UNIT_COUNT:
        is_good = amb_units_count(text, UINT64_MAX / 2, &number);
        *out = is_good ? (double)number : *out;
        break;
    }
    return is_good;
}

/* ---- figures ---- */

/* False: there is no such number. */
static bool number_of(const json_t *row, const char *key, double *out)
{
    const json_t *value = json_object_get(row, key);
    *out = json_number_value(value);
    return json_is_number(value);
}

/* The largest of a column; without rows 0. */
static bool largest(const json_t *rows, const char *key, double *out)
{
    *out = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        double value;
        if (!number_of(json_array_get(rows, i), key, &value)) {
            return false;
        }
        *out = value > *out ? value : *out;
    }
    return json_is_array(rows);
}

/* All columns that begin so, of all rows. */
static bool sum(json_t *rows, const char *begin, double *out)
{
    bool is_there = false;
    *out = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *key;
        json_t *value;
        json_object_foreach(json_array_get(rows, i), key, value)
        {
            if (strncmp(key, begin, strlen(begin)) == 0 && json_is_number(value)) {
                *out += json_number_value(value);
                is_there = true;
            }
        }
    }
    return is_there;
}

static bool figure(enum amb_judge judge, const json_t *answer, double *out)
{
    double limit;
    json_t *rows = json_object_get(answer, kinds[judge].query);
    switch (judge) {
    case AMB_JUDGE_READY:
        return number_of(answer, "clients", out);
    case AMB_JUDGE_HEALTH:
        if (!largest(rows, "longest_turn_10s_ns", out)) {
            return false;
        }
        *out /= (double)AMB_SEC;
        return true;
    case AMB_JUDGE_LAG:
        return largest(rows, "pending_bytes", out);
    case AMB_JUDGE_MEMORY:
        /* Segments stay when they are empty: only bytes in use say how full it is. */
        if (!number_of(answer, "memory_limit_bytes", &limit) || limit <= 0 ||
            !number_of(answer, "memory_used_bytes", out)) {
            return false;
        }
        *out = *out * 100 / limit;
        return true;
    case AMB_JUDGE_LOSS:
        return sum(rows, "lost_", out);
    case AMB_JUDGE_QUEUES:
        return number_of(answer, "dead_letters", out);
    }
    return false;
}

static void shown(enum unit unit, double value, char *out, size_t size)
{
    switch (unit) {
    case UNIT_SECONDS:
        amb_units_format_ns(value * (double)AMB_SEC, out, size);
        break;
    case UNIT_BYTES:
        amb_units_format_bytes(value, out, size);
        break;
    case UNIT_PERCENT:
        (void)snprintf(out, size, "%.1f %%", value);
        break;
    case UNIT_NONE:
    case UNIT_COUNT:
        (void)snprintf(out, size, "%.0f", value);
        break;
    }
}

void amb_judge(enum amb_judge judge, const json_t *answer, double warn, double critical,
               struct amb_judgement *out)
{
    const struct kind *kind = &kinds[judge];
    char text[64];
    *out = (struct amb_judgement){.warn = warn, .critical = critical};
    if (!figure(judge, answer, &out->value)) {
        out->state = AMB_JUDGE_UNKNOWN;
        (void)snprintf(out->text, sizeof(out->text), "%s UNKNOWN - the broker's answer has no %s",
                       kind->name, kind->label);
        return;
    }
    if (kind->unit != UNIT_NONE) {
        out->state = out->value > critical ? AMB_JUDGE_CRITICAL
                     : out->value > warn   ? AMB_JUDGE_WARNING
                                           : AMB_JUDGE_OK;
    }
    shown(kind->unit, out->value, text, sizeof(text));
    int len = snprintf(out->text, sizeof(out->text), "%s %s - %s %s | %s=%.9g%s", kind->name,
                       amb_judge_state(out->state), text, kind->what, kind->label, out->value,
                       perf_units[kind->unit]);
    if (kind->unit != UNIT_NONE && len > 0 && (size_t)len < sizeof(out->text)) {
        (void)snprintf(out->text + len, sizeof(out->text) - (size_t)len, ";%.9g;%.9g;0%s", warn,
                       critical, kind->unit == UNIT_PERCENT ? ";100" : "");
    }
}

void amb_judge_silence(enum amb_judge judge, bool is_forbidden, const char *why,
                       struct amb_judgement *out)
{
    bool is_critical = !is_forbidden && (judge == AMB_JUDGE_READY || judge == AMB_JUDGE_HEALTH);
    *out = (struct amb_judgement){.state = is_critical ? AMB_JUDGE_CRITICAL : AMB_JUDGE_UNKNOWN};
    (void)snprintf(out->text, sizeof(out->text), "%s %s - %.180s", kinds[judge].name,
                   amb_judge_state(out->state), why);
}
