/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/delta.h"

#include "broker/http/inboxes.h"
#include "wire/counters/query.h"
#include "wire/counters/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 3u
#define STATUS "status"

/* The columns that tell rows of a view apart. */
static const struct {
    enum amb_counters_scope scope;
    const char *parts[PARTS_MAX + 1];
} keys[] = {
    {AMB_COUNTERS_WORKER, {"worker", NULL}},
    {AMB_COUNTERS_TOPIC, {"topic", "priority", "tenant", NULL}},
    {AMB_COUNTERS_SUBSCRIPTION, {"id", NULL}},
    {AMB_COUNTERS_QUEUE, {"id", NULL}},
    {AMB_COUNTERS_CLIENT, {"id", NULL}},
    {AMB_COUNTERS_CLOSED, {"number", NULL}},
    {AMB_COUNTERS_LINE, {"level", "first_s", "line", NULL}},
    {AMB_COUNTERS_LOSS, {"subscription", "reason", "worker", NULL}},
};

static enum amb_counters_scope scope_of(const char *view)
{
    return strcmp(view, STATUS) == 0 ? AMB_COUNTERS_BROKER : amb_counters_query_scope(view);
}

/* For free(). */
static char *key_of(enum amb_counters_scope scope, const json_t *row)
{
    size_t at = 0;
    while (at < sizeof(keys) / sizeof(keys[0]) && keys[at].scope != scope) {
        at++;
    }
    if (at == sizeof(keys) / sizeof(keys[0])) {
        return strdup("");
    }
    const char *texts[PARTS_MAX] = {"", "", ""};
    char numbers[PARTS_MAX][24], *key;
    for (size_t i = 0; keys[at].parts[i] != NULL; i++) {
        const json_t *part = json_object_get(row, keys[at].parts[i]);
        if (json_is_integer(part)) {
            (void)snprintf(numbers[i], sizeof(numbers[i]), "%" JSON_INTEGER_FORMAT,
                           json_integer_value(part));
            texts[i] = numbers[i];
        } else {
            texts[i] = json_is_string(part) ? json_string_value(part) : "";
        }
    }
    return asprintf(&key, "%s%s%s%s%s", texts[0], keys[at].parts[1] == NULL ? "" : "|", texts[1],
                    keys[at].parts[1] == NULL ? "" : "|", texts[2]) < 0
               ? NULL
               : key;
}

json_t *amb_delta_rows(const char *view, json_t *answer)
{
    enum amb_counters_scope scope = scope_of(view);
    json_t *rows = json_object(), *list = json_object_get(answer, view), *row;
    bool is_good = rows != NULL && (scope == AMB_COUNTERS_BROKER || json_is_array(list));
    if (is_good && scope == AMB_COUNTERS_BROKER) {
        (void)json_object_del(answer, AMB_COUNTERS_UNITS); /* Columns say them. */
        is_good = json_object_set(rows, "", answer) == 0;
    }
    amb_inboxes_leave_out(list);
    for (size_t i = 0; is_good && (row = json_array_get(list, i)) != NULL; i++) {
        char *key = key_of(scope, row);
        is_good = key != NULL && json_object_set(rows, key, row) == 0;
        free(key);
    }
    if (!is_good) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

/* The columns of `now` that differ; NULL: none does, or *is_good is false. */
static json_t *changed(const json_t *before, json_t *now, bool *is_good)
{
    json_t *out = NULL, *value;
    const char *column;
    json_object_foreach(now, column, value)
    {
        const json_t *was = json_object_get(before, column);
        if (was == NULL || !json_equal(was, value)) {
            out = out == NULL ? json_object() : out;
            *is_good = *is_good && json_object_set(out, column, value) == 0;
        }
    }
    return out;
}

static json_t *all_changed(json_t *before, json_t *now, bool *is_good)
{
    json_t *set = json_object(), *row;
    const char *key;
    json_object_foreach(now, key, row)
    {
        json_t *part = changed(json_object_get(before, key), row, is_good);
        if (part != NULL) {
            *is_good = *is_good && json_object_set_new(set, key, part) == 0;
        }
    }
    return set;
}

static json_t *all_gone(json_t *before, const json_t *now, bool *is_good)
{
    json_t *gone = json_array(), *row;
    const char *key;
    json_object_foreach(before, key, row)
    {
        if (json_object_get(now, key) == NULL) {
            *is_good = *is_good && json_array_append_new(gone, json_string(key)) == 0;
        }
    }
    return gone;
}

json_t *amb_delta_of(json_t *before, json_t *now)
{
    bool is_good = true;
    json_t *set = all_changed(before, now, &is_good), *gone = all_gone(before, now, &is_good);
    json_t *delta = json_object();
    is_good = is_good && set != NULL && gone != NULL && delta != NULL;
    if (is_good && json_object_size(set) > 0) {
        is_good = json_object_set(delta, "set", set) == 0;
    }
    if (is_good && json_array_size(gone) > 0) {
        is_good = json_object_set(delta, "gone", gone) == 0;
    }
    json_decref(set);
    json_decref(gone);
    if (!is_good) {
        json_decref(delta);
        return NULL;
    }
    return delta;
}

static const char *kind_name(const struct amb_counters_metric *metric)
{
    switch (metric->kind) {
    case AMB_COUNTERS_COUNTER:
        return "counter";
    case AMB_COUNTERS_GAUGE:
    case AMB_COUNTERS_RECENT:
        return "gauge";
    default:
        return "text";
    }
}

/* Two threads may have a part of a figure; the row of workers is the one that explains the sum. */
static bool is_explained(const json_t *columns, const struct amb_counters_metric *metric)
{
    return metric->part != AMB_COUNTERS_IN_NUMBERS &&
           json_object_get(columns, metric->column) != NULL;
}

json_t *amb_delta_columns(const struct amb_counters_image *image, const char *view)
{
    enum amb_counters_scope scope = scope_of(view);
    json_t *columns = json_object();
    for (uint32_t i = 0; i < image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &image->metrics[i];
        if (metric->scope != scope || metric->column[0] == '\0' || is_explained(columns, metric)) {
            continue;
        }
        json_t *about =
            json_pack("[s, s, s, s]", metric->name, kind_name(metric), metric->unit, metric->help);
        if (json_object_set_new(columns, metric->column, about) != 0) {
            json_decref(columns);
            return NULL;
        }
    }
    return columns;
}
