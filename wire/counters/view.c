/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/counters/view.h"

#include "wire/base/memstream.h"
#include "wire/counters/query.h"
#include "wire/counters/units.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define KEY_TEXT 64u /* bytes of a text that are compared */

/* An object of the answer. */
struct found {
    uint64_t key; /* by which it is sorted, */
    uint32_t text_key;
    uint32_t slot; /* ... of its texts; or the block of a worker */
};

struct amb_counters_view {
    const struct amb_counters_image *image;
    struct amb_counters_query query;
    struct amb_counters_share share;
    const struct amb_counters_metric *tenant; /* of an object; NULL: all are seen */
    uint64_t now_ns;
    struct found *found;
    uint32_t count, next;
    char (*keys)[KEY_TEXT]; /* of a sort by a text */
    uint32_t *table;        /* slots of numbers, by id: open addressing, NONE is empty */
    uint32_t mask;
    bool is_begun;
};

/* One object, as it was read. */
struct object {
    uint64_t texts[AMB_TEXTS_WORDS];
    uint64_t numbers[AMB_NUMBERS_WORDS];
    uint32_t block; /* of a worker */
    bool has_numbers;
};

static uint32_t hash(uint64_t id)
{
    return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static bool is_text(const struct amb_counters_metric *metric)
{
    return metric->kind == AMB_COUNTERS_TEXT;
}

/* ---- figures ---- */

/* UINT64_MAX: nothing is known. */
static uint64_t figure(const struct amb_counters_view *view, const struct object *object,
                       const struct amb_counters_metric *metric)
{
    switch (metric->part) {
    case AMB_COUNTERS_IN_BLOCK:
        return amb_counters_figure(view->image, object->block, metric, view->now_ns);
    case AMB_COUNTERS_IN_TEXTS:
        return metric->is_id ? object->texts[AMB_SLOT_ID]
                             : object->texts[AMB_SLOT_FIGURES + metric->at];
    default:
        return object->has_numbers ? object->numbers[AMB_SLOT_FIGURES + metric->at] : UINT64_MAX;
    }
}

/* In `room` where it has to be given an end. */
static const char *text_figure(const struct object *object,
                               const struct amb_counters_metric *metric,
                               char room[AMB_NUMBERS_FIGURES * 8 + 1])
{
    if (metric->part == AMB_COUNTERS_IN_TEXTS) {
        return amb_counters_text(object->texts, metric->at);
    }
    size_t size = object->has_numbers ? (size_t)metric->words * 8 : 0;
    memcpy(room, &object->numbers[AMB_SLOT_FIGURES + metric->at], size);
    room[size] = '\0';
    return room;
}

/* ---- objects ---- */

/* An object may have a slot of each worker. Figures are added up where the table says so; of others
 * the first slot's is taken. */
static void add_numbers(const struct amb_counters_view *view, struct object *object,
                        const uint64_t *numbers)
{
    if (!object->has_numbers) {
        memcpy(object->numbers, numbers, sizeof(object->numbers));
        object->has_numbers = true;
        return;
    }
    for (uint32_t i = 0; i < view->image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &view->image->metrics[i];
        if (metric->scope == view->query.source->scope && metric->is_summed &&
            metric->part == AMB_COUNTERS_IN_NUMBERS) {
            object->numbers[AMB_SLOT_FIGURES + metric->at] +=
                numbers[AMB_SLOT_FIGURES + metric->at];
        }
    }
}

/* An object with a torn slot gets no figures: a sum without that slot would run backwards. */
static void find_numbers(const struct amb_counters_view *view, struct object *object)
{
    uint64_t id = object->texts[AMB_SLOT_ID], numbers[AMB_NUMBERS_WORDS] = {0};
    bool is_torn = false;
    for (uint32_t at = hash(id) & view->mask; view->table[at] != NONE; at = (at + 1) & view->mask) {
        bool is_whole = amb_counters_numbers(view->image, view->table[at], numbers);
        if (numbers[AMB_SLOT_ID] != id ||
            amb_counters_scope_of(numbers) != view->query.source->scope) {
            continue;
        }
        if (is_whole) {
            add_numbers(view, object, numbers);
        } else {
            is_torn = true;
        }
    }
    object->has_numbers = object->has_numbers && !is_torn;
}

/* False: it is gone, or is not asked for. */
static bool read_texts(const struct amb_counters_view *view, uint32_t slot, struct object *object)
{
    return amb_counters_texts(view->image, view->query.source->scope, slot, object->texts) &&
           amb_counters_scope_of(object->texts) == view->query.source->scope;
}

static bool is_wanted(const struct amb_counters_view *view, const struct object *object)
{
    const struct amb_counters_query *query = &view->query;
    if (view->tenant != NULL && figure(view, object, view->tenant) != view->share.tenant) {
        return false;
    }
    if (query->match_len == 0) {
        return true;
    }
    const char *name = amb_counters_text(object->texts, 0);
    return amb_pattern_matches(query->match, query->match_len, name, strlen(name));
}

/* ---- what is there ---- */

static bool make_table(struct amb_counters_view *view)
{
    uint32_t slots = view->image->header->slot_count, size = 16;
    uint64_t numbers[AMB_NUMBERS_WORDS] = {0};
    while (size < 2 * slots) {
        size *= 2;
    }
    view->table = malloc(sizeof(*view->table) * size);
    if (view->table == NULL) {
        return false;
    }
    memset(view->table, 0xff, sizeof(*view->table) * size);
    view->mask = size - 1;
    for (uint32_t slot = 0; slot < slots; slot++) {
        /* One that is torn is there, too. */
        (void)amb_counters_numbers(view->image, slot, numbers);
        if (amb_counters_scope_of(numbers) != view->query.source->scope) {
            continue;
        }
        uint32_t at = hash(numbers[AMB_SLOT_ID]) & view->mask;
        while (view->table[at] != NONE) {
            at = (at + 1) & view->mask;
        }
        view->table[at] = slot;
    }
    return true;
}

static void add_found(struct amb_counters_view *view, const struct object *object, uint32_t slot)
{
    const struct amb_counters_metric *sort = view->query.sort;
    struct found *found = &view->found[view->count];
    *found = (struct found){.slot = slot, .text_key = view->count};
    if (sort != NULL && is_text(sort)) {
        char room[AMB_NUMBERS_FIGURES * 8 + 1];
        (void)snprintf(view->keys[view->count], KEY_TEXT, "%s", text_figure(object, sort, room));
    } else if (sort != NULL) {
        found->key = figure(view, object, sort);
        found->key = found->key == UINT64_MAX ? 0 : found->key;
    }
    view->count++;
}

static void find_workers(struct amb_counters_view *view)
{
    for (uint32_t block = 1; block < view->image->header->block_count; block++) {
        struct object object = {.block = block};
        add_found(view, &object, block);
    }
}

static void find_objects(struct amb_counters_view *view)
{
    struct object object;
    uint32_t slots = amb_counters_slots(view->image, view->query.source->scope);
    for (uint32_t slot = 0; slot < slots; slot++) {
        object.has_numbers = false;
        if (read_texts(view, slot, &object) && is_wanted(view, &object)) {
            if (view->query.sort != NULL && view->query.sort->part == AMB_COUNTERS_IN_NUMBERS) {
                find_numbers(view, &object);
            }
            add_found(view, &object, slot);
        }
    }
}

/* Numbers from large to small; the order in which they were found where they are equal. */
static int by_number(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    if (a->key != b->key) {
        return a->key < b->key ? 1 : -1;
    }
    return a->slot < b->slot ? -1 : 1;
}

static int by_text(const void *left, const void *right, void *keys)
{
    const struct found *a = left, *b = right;
    char(*texts)[KEY_TEXT] = keys;
    int order = strcmp(texts[a->text_key], texts[b->text_key]);
    return order != 0 ? order : a->slot < b->slot ? -1 : 1;
}

static void sort_found(struct amb_counters_view *view)
{
    if (view->query.sort != NULL && is_text(view->query.sort)) {
        qsort_r(view->found, view->count, sizeof(*view->found), by_text, view->keys);
    } else if (view->query.sort != NULL) {
        qsort(view->found, view->count, sizeof(*view->found), by_number);
    }
    view->count = view->count < view->query.top ? view->count : (uint32_t)view->query.top;
}

static bool view_find(struct amb_counters_view *view)
{
    enum amb_counters_scope scope = view->query.source->scope;
    if (scope == 0) {
        return true;
    }
    uint32_t most = scope == AMB_COUNTERS_WORKER ? view->image->header->block_count
                                                 : amb_counters_slots(view->image, scope);
    view->found = calloc((size_t)most + 1, sizeof(*view->found));
    bool has_keys = view->query.sort != NULL && is_text(view->query.sort);
    view->keys = has_keys ? calloc((size_t)most + 1, KEY_TEXT) : NULL;
    if (view->found == NULL || (has_keys && view->keys == NULL)) {
        return false;
    }
    if (scope == AMB_COUNTERS_WORKER) {
        find_workers(view);
    } else if (make_table(view)) {
        find_objects(view);
    } else {
        return false;
    }
    sort_found(view);
    return true;
}

/* EFORBIDDEN: the table does not say whose the objects are, so nothing of it is shown. */
static enum amb_status view_narrow(struct amb_counters_view *view,
                                   const struct amb_counters_share *share,
                                   char why[AMB_COUNTERS_REFUSAL_MAX])
{
    const char *name = view->query.source->tenant;
    if (share == NULL) {
        return AMB_OK;
    }
    view->share = *share;
    for (uint32_t i = 0; i < view->image->header->metric_count && name != NULL; i++) {
        const struct amb_counters_metric *metric = &view->image->metrics[i];
        if (metric->scope == view->query.source->scope && metric->part == AMB_COUNTERS_IN_TEXTS &&
            !is_text(metric) && strcmp(metric->name, name) == 0) {
            view->tenant = metric;
            return AMB_OK;
        }
    }
    (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "%s is of the whole broker",
                   view->query.source->name);
    return AMB_EFORBIDDEN;
}

enum amb_status amb_counters_view_open(const struct amb_counters_image *image, const char *query,
                                       const struct amb_counters_share *share, uint64_t now_ns,
                                       struct amb_counters_view **out,
                                       char why[AMB_COUNTERS_REFUSAL_MAX])
{
    struct amb_counters_view *view = calloc(1, sizeof(*view));
    if (view == NULL) {
        return AMB_ENOMEM;
    }
    view->image = image;
    view->now_ns =
        now_ns != 0 ? now_ns : atomic_load_explicit(&image->header->beat_ns, memory_order_relaxed);
    enum amb_status status = amb_counters_query_parse(image, query, &view->query, why);
    if (status == AMB_OK) {
        status = view_narrow(view, share, why);
    }
    if (status == AMB_OK && !view_find(view)) {
        status = AMB_ENOMEM;
    }
    if (status != AMB_OK) {
        amb_counters_view_close(&view);
        return status;
    }
    *out = view;
    return AMB_OK;
}

void amb_counters_view_close(struct amb_counters_view **view)
{
    struct amb_counters_view *v = *view;
    if (v == NULL) {
        return;
    }
    *view = NULL;
    free(v->found);
    free(v->keys);
    free(v->table);
    free(v);
}

/* ---- JSON ---- */

static json_t *json_number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Bytes that are no UTF-8 can only come from a file that somebody made up. */
static json_t *json_text(const char *text)
{
    json_t *value = json_string(text);
    return value != NULL ? value : json_string("?");
}

static void put_figure(const struct amb_counters_view *view, json_t *row,
                       const struct object *object, const struct amb_counters_metric *metric)
{
    char room[AMB_NUMBERS_FIGURES * 8 + 1];
    if (is_text(metric)) {
        (void)json_object_set_new(row, metric->column,
                                  json_text(text_figure(object, metric, room)));
        return;
    }
    uint64_t value = figure(view, object, metric);
    if (metric->kind == AMB_COUNTERS_FLAG) {
        (void)json_object_set_new(row, metric->column, json_boolean(value != 0));
    } else if (metric->kind == AMB_COUNTERS_ID && value == UINT64_MAX) {
        if (metric->part == AMB_COUNTERS_IN_BLOCK) {
            (void)json_object_set_new(row, metric->column, json_null());
        }
    } else {
        json_int_t others = json_integer_value(json_object_get(row, metric->column));
        (void)json_object_set_new(row, metric->column, json_number(value + (uint64_t)others));
    }
}

static json_t *row_of(const struct amb_counters_view *view, const struct object *object)
{
    json_t *row = json_object();
    for (uint32_t i = 0; i < view->image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &view->image->metrics[i];
        bool is_there = metric->part != AMB_COUNTERS_IN_NUMBERS || object->has_numbers;
        if (metric->scope == view->query.source->scope && metric->column[0] != '\0' && is_there) {
            put_figure(view, row, object, metric);
        }
    }
    return row;
}

/* NULL: it has gone. */
static json_t *next_row(const struct amb_counters_view *view, uint32_t slot)
{
    struct object object = {.block = slot};
    if (view->query.source->scope == AMB_COUNTERS_WORKER) {
        return row_of(view, &object);
    }
    /* The slot may be another object's meanwhile. */
    if (!read_texts(view, slot, &object) || !is_wanted(view, &object)) {
        return NULL;
    }
    find_numbers(view, &object);
    return row_of(view, &object);
}

static const struct amb_counters_metric *
metric_of(const struct amb_counters_view *view, enum amb_counters_scope scope, const char *column)
{
    for (uint32_t i = 0; i < view->image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &view->image->metrics[i];
        if (metric->scope == scope && strcmp(metric->column, column) == 0) {
            return metric;
        }
    }
    return NULL;
}

static uint64_t sum_of_workers(const struct amb_counters_view *view,
                               const struct amb_counters_metric *metric)
{
    uint64_t sum = 0;
    for (uint32_t block = 1; block < view->image->header->block_count; block++) {
        sum += amb_counters_figure(view->image, block, metric, view->now_ns);
    }
    return sum;
}

/* Sums that `status` has, by the names that they have there. */
static const struct {
    const char *key, *metric;
} totals[] = {
    {"messages_in", "ambroker_messages_in_total"},
    {"messages_out", "ambroker_messages_out_total"},
    {"dropped", "ambroker_messages_dropped_total"},
    {"rejected", "ambroker_messages_rejected_total"},
    {"redelivered", "ambroker_messages_redelivered_total"},
    {"dead_letters", "ambroker_messages_dead_total"},
    {"dead_letters_lost", "ambroker_messages_dead_lost_total"},
    {"memory_used_bytes", "ambroker_memory_used_bytes"},
};

static json_t *status_of(const struct amb_counters_view *view)
{
    const struct amb_counters_header *header = view->image->header;
    const struct object broker = {.block = 0};
    char epoch[32];
    (void)snprintf(epoch, sizeof(epoch), "%016" PRIx64, header->epoch);
    uint64_t started_ns = (uint64_t)header->started_ns;
    uint64_t up_ns = view->now_ns > started_ns ? view->now_ns - started_ns : 0;
    json_t *row = json_object(), *units = amb_counters_units(view->image, AMB_COUNTERS_BROKER);
    (void)json_object_set_new(row, "name", json_text(header->name));
    (void)json_object_set_new(row, "version", json_text(header->version));
    (void)json_object_set_new(row, "pid", json_number(header->pid));
    (void)json_object_set_new(row, "epoch", json_string(epoch));
    (void)json_object_set_new(row, "ucx", json_text(header->ucx));
    (void)json_object_set_new(row, "uptime_s", json_number(up_ns / 1000000000u));
    for (uint32_t i = 0; i < header->metric_count; i++) {
        const struct amb_counters_metric *metric = &view->image->metrics[i];
        if (metric->scope == AMB_COUNTERS_BROKER && metric->column[0] != '\0') {
            put_figure(view, row, &broker, metric);
        }
        for (size_t k = 0; k < sizeof(totals) / sizeof(totals[0]); k++) {
            if (metric->scope == AMB_COUNTERS_WORKER &&
                strcmp(metric->name, totals[k].metric) == 0) {
                (void)json_object_set_new(row, totals[k].key,
                                          json_number(sum_of_workers(view, metric)));
                (void)json_object_set_new(units, totals[k].key, json_text(metric->unit));
            }
        }
    }
    (void)json_object_set_new(units, "uptime_s", json_string("s"));
    (void)json_object_set_new(row, AMB_COUNTERS_UNITS, units);
    return row;
}

static json_t *histogram_of(const struct amb_counters_view *view, uint32_t block,
                            const struct amb_counters_metric *metric)
{
    json_t *buckets = json_array();
    for (uint32_t i = 0; i < metric->words; i++) {
        (void)json_array_append_new(
            buckets, json_number(amb_counters_word(view->image, block, metric->at + i)));
    }
    return buckets;
}

static json_t *metric_row(const struct amb_counters_view *view, uint32_t block,
                          const struct amb_counters_metric *metric)
{
    json_t *row = json_object();
    (void)json_object_set_new(row, "metric", json_text(metric->name));
    if (block > 0) {
        (void)json_object_set_new(row, "worker", json_number(block - 1));
    }
    uint64_t value = amb_counters_figure(view->image, block, metric, view->now_ns);
    (void)json_object_set_new(
        row, "value",
        metric->kind == AMB_COUNTERS_HISTOGRAM                   ? histogram_of(view, block, metric)
        : metric->kind == AMB_COUNTERS_ID && value == UINT64_MAX ? json_null()
                                                                 : json_number(value));
    (void)json_object_set_new(row, "unit", json_text(metric->unit));
    (void)json_object_set_new(row, "help", json_text(metric->help));
    return row;
}

static json_t *metrics_of(const struct amb_counters_view *view)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < view->image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &view->image->metrics[i];
        if (metric->scope == AMB_COUNTERS_BROKER) {
            (void)json_array_append_new(rows, metric_row(view, 0, metric));
        }
        for (uint32_t block = 1;
             block < view->image->header->block_count && metric->scope == AMB_COUNTERS_WORKER;
             block++) {
            (void)json_array_append_new(rows, metric_row(view, block, metric));
        }
    }
    return json_pack("{s:o, s:{s:s}}", "metrics", rows, AMB_COUNTERS_UNITS, "value", "@unit");
}

static char *dump(json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);
    json_decref(value);
    return text;
}

/* The answer's end: the objects that have no slot, where all are asked for. */
static void put_end(const struct amb_counters_view *view, FILE *out)
{
    const char *column = view->query.source->unlisted;
    const struct amb_counters_metric *metric =
        column == NULL ? NULL : metric_of(view, AMB_COUNTERS_BROKER, column);
    uint64_t unlisted = view->tenant != NULL ? view->share.unlisted
                        : metric == NULL     ? 0
                                             : amb_counters_word(view->image, 0, metric->at);
    (void)fputc(']', out);
    if (unlisted != 0) {
        (void)fprintf(out, ",\"not_shown\":%" PRIu64, unlisted);
    }
    char *units = dump(amb_counters_units(view->image, view->query.source->scope));
    (void)fprintf(out, ",\"" AMB_COUNTERS_UNITS "\":%s}", units != NULL ? units : "{}");
    free(units);
}

static bool put_rows(struct amb_counters_view *view, uint32_t rows, FILE *out)
{
    uint32_t put = 0;
    while (view->next < view->count && put < rows) {
        json_t *row = next_row(view, view->found[view->next++].slot);
        if (row == NULL) {
            continue;
        }
        char *text = dump(row);
        if (text == NULL) {
            return false;
        }
        (void)fprintf(out, "%s%s", view->is_begun ? "," : "", text);
        view->is_begun = true;
        put++;
        free(text);
    }
    return true;
}

char *amb_counters_view_page(struct amb_counters_view *view, uint32_t rows, bool *is_last)
{
    *is_last = true;
    if (view->query.source->scope == 0) {
        bool is_status = strcmp(view->query.source->name, "status") == 0;
        return dump(is_status ? status_of(view) : metrics_of(view));
    }
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        return NULL;
    }
    if (view->next == 0) {
        (void)fprintf(out, "{\"%s\":[", view->query.source->name);
    }
    bool is_good = put_rows(view, rows, out);
    *is_last = view->next == view->count;
    if (*is_last) {
        put_end(view, out);
    }
    if (!amb_memstream_end(out, &text) || !is_good) {
        free(text);
        return NULL;
    }
    return text;
}

char *amb_counters_view_all(struct amb_counters_view *view)
{
    char *text = NULL;
    size_t size = 0;
    bool is_last = false, is_good = true;
    FILE *out = open_memstream(&text, &size);
    while (out != NULL && is_good && !is_last) {
        char *page = amb_counters_view_page(view, AMB_COUNTERS_PAGE_ROWS, &is_last);
        is_good = page != NULL && fputs(page, out) >= 0;
        free(page);
    }
    if (!amb_memstream_end(out, &text) || !is_good) {
        free(text);
        return NULL;
    }
    return text;
}
