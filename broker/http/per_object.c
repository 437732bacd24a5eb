/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/per_object.h"

#include "broker/http/inboxes.h"
#include "wire/base/memstream.h"
#include "wire/counters/query.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 4u

/* The columns that are labels of a kind of object. */
static const struct {
    enum amb_counters_scope scope;
    const char *labels[LABELS_MAX];
} kinds[] = {
    {AMB_COUNTERS_TOPIC, {"topic", "priority", "tenant", NULL}},
    {AMB_COUNTERS_SUBSCRIPTION, {"id", "pattern", "client", "tenant"}},
    {AMB_COUNTERS_QUEUE, {"id", "pattern", "durable", "group"}},
    {AMB_COUNTERS_CLIENT, {"id", "name", "tenant", NULL}},
};

struct writer {
    const struct amb_counters_image *image;
    const char *const *labels;
    json_t *rows;
    FILE *out;
    bool is_open; /* OpenMetrics */
};

static void put_labels(const struct writer *w, const json_t *row)
{
    bool is_first = true;
    for (size_t i = 0; i < LABELS_MAX && w->labels[i] != NULL; i++) {
        const json_t *value = json_object_get(row, w->labels[i]);
        if (json_is_integer(value)) {
            (void)fprintf(w->out, "%c%s=\"%" JSON_INTEGER_FORMAT "\"", is_first ? '{' : ',',
                          w->labels[i], json_integer_value(value));
        } else {
            const char *text = json_string_value(value);
            (void)fprintf(w->out, "%c%s=\"", is_first ? '{' : ',', w->labels[i]);
            amb_exposition_escape(w->out, text == NULL ? "" : text, true);
            (void)fputc('"', w->out);
        }
        is_first = false;
    }
    (void)fputs("} ", w->out);
}

/* A column that a thread and the control thread share has the sum of both: it is a row's once. */
static bool is_shadowed(const struct writer *w, const struct amb_counters_metric *metric)
{
    for (uint32_t i = 0; i < w->image->header->metric_count; i++) {
        const struct amb_counters_metric *other = &w->image->metrics[i];
        if (other != metric && other->scope == metric->scope &&
            strcmp(other->column, metric->column) == 0 && other->part == AMB_COUNTERS_IN_NUMBERS) {
            return true;
        }
    }
    return false;
}

static void put_metric(const struct writer *w, const struct amb_counters_metric *metric)
{
    bool is_counter = metric->kind == AMB_COUNTERS_COUNTER;
    if ((!is_counter && metric->kind != AMB_COUNTERS_GAUGE) || metric->column[0] == '\0' ||
        is_shadowed(w, metric)) {
        return;
    }
    amb_exposition_head(w->out, metric->name, is_counter ? "counter" : "gauge", metric->help,
                        w->is_open);
    size_t i;
    json_t *row;
    json_array_foreach(w->rows, i, row)
    {
        const json_t *value = json_object_get(row, metric->column);
        if (json_is_integer(value)) {
            (void)fputs(metric->name, w->out);
            put_labels(w, row);
            (void)fprintf(w->out, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
        }
    }
}

static void put_all(const struct writer *w, enum amb_counters_scope scope, bool is_cut)
{
    for (uint32_t i = 0; i < w->image->header->metric_count; i++) {
        if (w->image->metrics[i].scope == scope) {
            put_metric(w, &w->image->metrics[i]);
        }
    }
    amb_exposition_head(w->out, "ambroker_per_object_cut", "gauge",
                        "1: there are more objects than this answer has.", w->is_open);
    (void)fprintf(w->out, "ambroker_per_object_cut %d\n", is_cut ? 1 : 0);
    if (w->is_open) {
        (void)fputs("# EOF\n", w->out);
    }
}

/* The rows, one more than `most` where there are more. */
static enum amb_status read_rows(const struct amb_counters_image *image, const char *query,
                                 uint32_t most, json_t **out, char why[AMB_COUNTERS_REFUSAL_MAX])
{
    char cut[AMB_COUNTERS_QUERY_MAX + 32];
    struct amb_counters_view *view = NULL;
    const struct amb_counters_source *source = amb_counters_source_find(query);
    (void)snprintf(cut, sizeof(cut), "%s top=%u", query, most + 1);
    enum amb_status status = amb_counters_view_open(image, cut, NULL, 0, &view, why);
    if (status != AMB_OK) {
        return status;
    }
    char *text = amb_counters_view_all(view);
    amb_counters_view_close(&view);
    json_t *answer = text == NULL ? NULL : json_loads(text, 0, NULL);
    free(text);
    *out = json_incref(json_object_get(answer, source->name));
    json_decref(answer);
    return *out == NULL ? AMB_ENOMEM : AMB_OK;
}

static const char *const *labels_of(enum amb_counters_scope scope)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].scope == scope) {
            return kinds[i].labels;
        }
    }
    return NULL;
}

enum amb_status amb_per_object(const struct amb_counters_image *image, const char *query,
                               uint32_t most, enum amb_exposition_form form, char **text_out,
                               size_t *len_out, char why[AMB_COUNTERS_REFUSAL_MAX])
{
    enum amb_counters_scope scope = amb_counters_query_scope(query);
    struct writer w = {
        .image = image, .labels = labels_of(scope), .is_open = form == AMB_EXPOSITION_OPENMETRICS};
    if (w.labels == NULL) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "kind is topics, subs, queues or clients");
        return AMB_EINVAL;
    }
    enum amb_status status = read_rows(image, query, most, &w.rows, why);
    if (status != AMB_OK) {
        return status;
    }
    bool is_cut = json_array_size(w.rows) > most;
    if (is_cut) {
        (void)json_array_remove(w.rows, most);
    }
    amb_inboxes_leave_out(w.rows); /* Series of one name must differ in their labels. */
    w.out = open_memstream(text_out, len_out);
    if (w.out != NULL) {
        put_all(&w, scope, is_cut);
    }
    json_decref(w.rows);
    return amb_memstream_end(w.out, text_out) ? AMB_OK : AMB_ENOMEM;
}
