/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/compare.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The options that make a cell: all that were given. Options that only one side tells do not
 * separate cells. */
static const char *const identity[] = {"who",    "workload", "link",    "size",   "subs",
                                       "pubs",   "loop",     "rate",    "touch",  "send",
                                       "window", "memory",   "workers", "receive"};

enum verdict {
    MORE_IS_BETTER,
    LESS_IS_BETTER,
    ONLY_SHOWN,
};

static const struct {
    const char *key;
    enum verdict verdict;
    const char *without; /* looked at where this one is not there; NULL: always */
} figures[] = {
    {"msgs_per_s", MORE_IS_BETTER, NULL},
    {"mb_per_s", MORE_IS_BETTER, "msgs_per_s"}, /* of sendrecv, shuffle and copies */
    {"p50_us", LESS_IS_BETTER, NULL},
    {"p99_us", ONLY_SHOWN, NULL},
    {"broker_cpu_s_per_mmsg", ONLY_SHOWN, NULL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_same_cell(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < COUNT(identity); i++) {
        const json_t *x = json_object_get(a, identity[i]);
        const json_t *y = json_object_get(b, identity[i]);
        if (x == NULL || y == NULL) {
            continue;
        }
        /* 1000 and 1000.0 are the same rate. */
        bool is_same = json_is_number(x) && json_is_number(y)
                           ? !(json_number_value(x) < json_number_value(y) ||
                               json_number_value(x) > json_number_value(y))
                           : json_equal(x, y) == 1;
        if (!is_same) {
            return false;
        }
    }
    /* Of plain copies the way is what was asked for. */
    const char *workload = json_string_value(json_object_get(a, "workload"));
    return workload == NULL || strcmp(workload, "copies") != 0 ||
           json_equal(json_object_get(a, "path"), json_object_get(b, "path")) == 1;
}

/* A single result counts as an array of one. */
static size_t cell_count(const json_t *results)
{
    return json_is_array(results) ? json_array_size(results) : 1;
}

static const json_t *cell_at(const json_t *results, size_t i)
{
    return json_is_array(results) ? json_array_get(results, i) : results;
}

static const json_t *find_cell(const json_t *results, const json_t *cell)
{
    for (size_t i = 0; i < cell_count(results); i++) {
        if (is_same_cell(cell_at(results, i), cell)) {
            return cell_at(results, i);
        }
    }
    return NULL;
}

static bool is_ok(const json_t *cell)
{
    const char *status = json_string_value(json_object_get(cell, "status"));
    return status == NULL || strcmp(status, "ok") == 0;
}

static void set_named(json_t *row, const char *key, const char *suffix, double value)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s%s", key, suffix);
    (void)json_object_set_new(row, name, json_real(value));
}

/* Adds one figure of both to the row; true: it became worse than the tolerance allows. */
static bool add_figure(json_t *row, const json_t *a, const json_t *b, size_t i, double tolerance)
{
    const char *key = figures[i].key;
    const json_t *before = json_object_get(a, key);
    const json_t *after = json_object_get(b, key);
    if (figures[i].without != NULL && json_object_get(b, figures[i].without) != NULL) {
        return false;
    }
    if (!json_is_number(before) || !json_is_number(after) || !(json_number_value(before) > 0)) {
        return false;
    }
    double ratio = json_number_value(after) / json_number_value(before);
    set_named(row, key, ".a", json_number_value(before));
    set_named(row, key, ".b", json_number_value(after));
    set_named(row, key, ".ratio", ratio);
    switch (figures[i].verdict) {
    case MORE_IS_BETTER:
        return ratio < 1 - tolerance;
    case LESS_IS_BETTER:
        return ratio > 1 + tolerance;
    case ONLY_SHOWN:
        break;
    }
    return false;
}

/* Has the row a figure by which it could have become worse? */
static bool is_judged(const json_t *row)
{
    for (size_t i = 0; i < COUNT(figures); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s.ratio", figures[i].key);
        if (figures[i].verdict != ONLY_SHOWN && json_object_get(row, name) != NULL) {
            return true;
        }
    }
    return false;
}

json_t *amb_compare(const json_t *a, const json_t *b, double tolerance, unsigned *slower)
{
    json_t *rows = json_array();
    *slower = 0;
    for (size_t i = 0; i < cell_count(b); i++) {
        const json_t *cell = cell_at(b, i);
        const json_t *before = find_cell(a, cell);
        if (before == NULL || !is_ok(before)) {
            continue;
        }
        json_t *row = json_object();
        for (size_t k = 0; k < COUNT(identity); k++) {
            json_t *value = json_object_get(cell, identity[k]);
            if (value != NULL) {
                (void)json_object_set(row, identity[k], value);
            }
        }
        bool is_slower = !is_ok(cell);
        for (size_t k = 0; k < COUNT(figures); k++) {
            is_slower = add_figure(row, before, cell, k, tolerance) || is_slower;
        }
        if (is_ok(cell) && !is_judged(row)) { /* That would be no proof of anything. */
            json_decref(row);
            continue;
        }
        (void)json_object_set_new(row, "verdict",
                                  json_string(!is_ok(cell) ? "failed"
                                              : is_slower  ? "slower"
                                                           : "ok"));
        (void)json_array_append_new(rows, row);
        *slower += is_slower ? 1 : 0;
    }
    return rows;
}
