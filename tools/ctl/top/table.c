/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_MAX 1024u
#define KEY_MAX 64u

bool amb_top_figure(const json_t *object, const char *key, double *out)
{
    double sum = 0;
    for (const char *at = key; *at != '\0';) {
        char name[KEY_MAX];
        size_t len = strcspn(at, "+");
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, at);
        const json_t *value = json_object_get(object, name);
        if (!json_is_number(value)) {
            return false;
        }
        sum += json_number_value(value);
        at += len + (at[len] == '+');
    }
    *out = sum;
    return true;
}

const char *amb_top_row_text(const struct amb_top_row *row, const struct amb_top_column *column)
{
    const char *text = json_string_value(json_object_get(row->json, column->key));
    return text == NULL ? "" : text;
}

/* The rows of an answer; NULL: it has none. */
static json_t *rows_of(json_t *answer, const char *query)
{
    json_t *rows = json_object_get(answer, query);
    return json_is_array(rows) ? rows : NULL;
}

static void write_id(const struct amb_top_lens *lens, const json_t *object, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; lens->ids[i] != NULL && used < size; i++) {
        const json_t *part = json_object_get(object, lens->ids[i]);
        int len = json_is_string(part)
                      ? snprintf(out + used, size - used, "%s\n", json_string_value(part))
                      : snprintf(out + used, size - used, "%" JSON_INTEGER_FORMAT "\n",
                                 json_integer_value(part));
        used += (size_t)len;
    }
}

/* ---- sums over another view ---- */

/* own key: sum; a new reference, or NULL. */
static json_t *sums_of(const json_t *rows, const struct amb_top_column *column)
{
    json_t *sums = json_object();
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        char key[32];
        double figure;
        const json_t *by = json_object_get(row, column->by);
        if (!json_is_integer(by) || !amb_top_figure(row, column->key, &figure)) {
            continue;
        }
        (void)snprintf(key, sizeof(key), "%" JSON_INTEGER_FORMAT, json_integer_value(by));
        figure += json_number_value(json_object_get(sums, key));
        (void)json_object_set_new(sums, key, json_real(figure));
    }
    return sums;
}

/* Puts the sums into the rows. Without the other answer they are not known. */
static void count_sums(struct amb_top_table *table, size_t at, json_t *const answers[3])
{
    const struct amb_top_column *column = &table->lens->columns[at];
    json_t *rows = NULL;
    for (size_t i = 0; i < sizeof(table->lens->also) / sizeof(table->lens->also[0]); i++) {
        const char *query = table->lens->also[i];
        if (query != NULL && strcmp(query, column->of) == 0) {
            rows = rows_of(answers[1 + i], query);
        }
    }
    if (rows == NULL) {
        return;
    }
    json_t *sums = sums_of(rows, column);
    for (size_t i = 0; i < table->count; i++) {
        struct amb_top_row *row = &table->rows[i];
        const json_t *own = json_object_get(row->json, column->own);
        char key[32];
        (void)snprintf(key, sizeof(key), "%" JSON_INTEGER_FORMAT, json_integer_value(own));
        row->counted[at] = json_number_value(json_object_get(sums, key));
        row->has_counted |= 1u << at;
    }
    json_decref(sums);
}

/* ---- rates ---- */

static bool is_rate(enum amb_top_kind kind)
{
    return kind == AMB_TOP_RATE || kind == AMB_TOP_BYTE_RATE;
}

static const struct amb_top_row *row_before(const struct amb_top_table *before,
                                            const struct amb_top_row *row)
{
    char id[ID_MAX];
    if (before == NULL) {
        return NULL;
    }
    write_id(before->lens, row->json, id, sizeof(id));
    const json_t *number = json_object_get(before->by_id, id);
    return number == NULL ? NULL : &before->rows[json_integer_value(number)];
}

static void set_values(const struct amb_top_table *table, struct amb_top_row *row,
                       const struct amb_top_table *before)
{
    const struct amb_top_row *past = row_before(before, row);
    double seconds = before == NULL ? 0 : (double)(table->at_ns - before->at_ns) / 1e9;
    for (size_t i = 0; i < table->lens->count; i++) {
        uint32_t bit = 1u << i;
        if ((row->has_counted & bit) == 0) {
            continue;
        }
        if (!is_rate(table->lens->columns[i].kind)) {
            row->value[i] = row->counted[i];
            row->known |= bit;
        } else if (past != NULL && (past->has_counted & bit) != 0 && seconds > 0 &&
                   row->counted[i] >= past->counted[i]) {
            row->value[i] = (row->counted[i] - past->counted[i]) / seconds;
            row->known |= bit;
        }
    }
}

/* ---- a table ---- */

static void count_own(struct amb_top_table *table, struct amb_top_row *row)
{
    for (size_t i = 0; i < table->lens->count; i++) {
        const struct amb_top_column *column = &table->lens->columns[i];
        if (column->of == NULL && column->kind != AMB_TOP_TEXT &&
            amb_top_figure(row->json, column->key, &row->counted[i])) {
            row->has_counted |= 1u << i;
        }
    }
}

static bool fill(struct amb_top_table *table, json_t *rows, json_t *const answers[3],
                 const struct amb_top_table *before)
{
    size_t count = json_array_size(rows);
    table->rows = calloc(count > 0 ? count : 1, sizeof(*table->rows));
    table->by_id = json_object();
    if (table->rows == NULL || table->by_id == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(rows, i);
        struct amb_top_row *row = &table->rows[table->count];
        char id[ID_MAX];
        if (!json_is_object(object)) {
            continue;
        }
        row->json = object;
        count_own(table, row);
        write_id(table->lens, object, id, sizeof(id));
        (void)json_object_set_new(table->by_id, id, json_integer((json_int_t)table->count));
        table->count++;
    }
    for (size_t i = 0; i < table->lens->count; i++) {
        if (table->lens->columns[i].of != NULL) {
            count_sums(table, i, answers);
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        set_values(table, &table->rows[i], before);
    }
    return true;
}

struct amb_top_table *amb_top_table_make(const struct amb_top_lens *lens, json_t *const answers[3],
                                         int64_t at_ns, const struct amb_top_table *before)
{
    struct amb_top_table *table = calloc(1, sizeof(*table));
    if (table == NULL) {
        return NULL;
    }
    table->lens = lens;
    table->at_ns = at_ns;
    table->answer = json_incref(answers[0]);
    json_int_t not_shown = json_integer_value(json_object_get(answers[0], "not_shown"));
    table->not_shown = not_shown > 0 ? (uint64_t)not_shown : 0;
    if (!fill(table, rows_of(answers[0], lens->query), answers, before)) {
        amb_top_table_free(&table);
    }
    return table;
}

void amb_top_table_free(struct amb_top_table **table)
{
    if (*table != NULL) {
        json_decref((*table)->answer);
        json_decref((*table)->by_id);
        free((*table)->rows);
        free(*table);
        *table = NULL;
    }
}

/* ---- choice and order ---- */

static bool is_chosen(const struct amb_top_table *table, const struct amb_top_row *row,
                      const char *filter)
{
    if (filter[0] == '\0') {
        return true;
    }
    for (size_t i = 0; i < table->lens->count; i++) {
        const struct amb_top_column *column = &table->lens->columns[i];
        char number[32];
        const char *text = column->kind == AMB_TOP_TEXT ? amb_top_row_text(row, column) : "";
        if (i == 0 && column->kind == AMB_TOP_NUMBER) {
            (void)snprintf(number, sizeof(number), "%.0f", row->counted[0]);
            text = number;
        }
        if (strcasestr(text, filter) != NULL) {
            return true;
        }
    }
    return false;
}

struct sorting {
    const struct amb_top_table *table;
    size_t column;
    bool is_reverse;
};

/* Large numbers and first letters come first, unknown figures last, in both directions. */
static int compare(const void *a, const void *b, void *arg)
{
    const struct sorting *sorting = arg;
    size_t left = *(const size_t *)a, right = *(const size_t *)b, at = sorting->column;
    const struct amb_top_row *one = &sorting->table->rows[left];
    const struct amb_top_row *two = &sorting->table->rows[right];
    const struct amb_top_column *column = &sorting->table->lens->columns[at];
    int order = 0;
    if (column->kind == AMB_TOP_TEXT) {
        order = strcmp(amb_top_row_text(one, column), amb_top_row_text(two, column));
    } else {
        bool has_one = (one->known >> at & 1u) != 0, has_two = (two->known >> at & 1u) != 0;
        if (has_one != has_two) {
            return has_one ? -1 : 1;
        }
        if (has_one && one->value[at] != two->value[at]) {
            order = one->value[at] > two->value[at] ? -1 : 1;
        }
    }
    order = sorting->is_reverse ? -order : order;
    return order != 0 ? order : left < right ? -1 : 1;
}

size_t *amb_top_table_show(const struct amb_top_table *table, const struct amb_top_order *order,
                           size_t *count)
{
    size_t *shown = calloc(table->count > 0 ? table->count : 1, sizeof(*shown));
    *count = 0;
    if (shown == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < table->count; i++) {
        if (is_chosen(table, &table->rows[i], order->filter)) {
            shown[(*count)++] = i;
        }
    }
    struct sorting sorting = {table, order->column, order->is_reverse};
    qsort_r(shown, *count, sizeof(*shown), compare, &sorting);
    return shown;
}
