/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/table.h"

#include "tools/common/shown.h"
#include "tools/common/units.h"

#include <libsmartcols.h>

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX 512u
#define DEPTH_MAX 8u

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void number_text(const char *key, const json_t *value, char *out, size_t size)
{
    double number = json_number_value(value);
    if (ends_with(key, "bytes")) {
        amb_units_format_bytes(number, out, size);
    } else if (ends_with(key, "_ns")) {
        amb_units_format_ns(number, out, size);
    } else if (json_is_integer(value)) {
        (void)snprintf(out, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (fabs(number) >= 100) {
        (void)snprintf(out, size, "%.0f", number);
    } else if (fabs(number) >= 1) {
        (void)snprintf(out, size, "%.2f", number);
    } else {
        (void)snprintf(out, size, "%.3g", number);
    }
}

static void scalar_text(const char *key, const json_t *value, char *out, size_t size)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        (void)snprintf(out, size, "%s", json_string_value(value));
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        number_text(key, value, out, size);
        break;
    case JSON_TRUE:
        (void)snprintf(out, size, "%s", "yes");
        break;
    case JSON_FALSE:
        (void)snprintf(out, size, "%s", "no");
        break;
    case JSON_NULL:
        (void)snprintf(out, size, "%s", "-");
        break;
    case JSON_OBJECT:
    case JSON_ARRAY:
        (void)snprintf(out, size, "%s", "...");
        break;
    }
}

static void cell_text(const char *key, const json_t *value, char *out, size_t size)
{
    out[0] = '\0';
    if (json_is_array(value)) {
        size_t used = 0;
        for (size_t i = 0; i < json_array_size(value) && used + 2 < size; i++) {
            if (i > 0) {
                out[used++] = ',';
            }
            scalar_text(key, json_array_get(value, i), out + used, size - used);
            used += strlen(out + used);
        }
    } else if (value != NULL) {
        scalar_text(key, value, out, size);
    }
    if (out[0] == '\0') {
        (void)snprintf(out, size, "%s", "-");
    }
}

/* ---- what libsmartcols does ---- */

/* Whole, however narrow the terminal is. NULL: no memory. */
static struct libscols_table *new_table(FILE *out, bool has_head)
{
    struct libscols_table *table = scols_new_table();
    if (table != NULL) {
        (void)scols_table_set_stream(table, out);
        (void)scols_table_set_column_separator(table, "  ");
        (void)scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
        (void)scols_table_enable_noheadings(table, !has_head);
    }
    return table;
}

static struct libscols_column *find_column(struct libscols_table *table, const char *key)
{
    for (size_t i = 0; i < scols_table_get_ncols(table); i++) {
        struct libscols_column *column = scols_table_get_column(table, i);
        if (strcmp(scols_column_get_name(column), key) == 0) {
            return column;
        }
    }
    return NULL;
}

/* One for each key; to the right where all of its values are numbers. */
static void add_columns(struct libscols_table *table, const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *key;
        json_t *value;
        json_object_foreach(row, key, value)
        {
            struct libscols_column *column = find_column(table, key);
            if (column == NULL) {
                column = scols_table_new_column(table, key, 0, SCOLS_FL_RIGHT);
            }
            if (column != NULL && !json_is_number(value) && !json_is_null(value)) {
                (void)scols_column_set_flags(column, 0);
            }
        }
    }
}

static void add_line(struct libscols_table *table, const json_t *row)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);
    for (size_t i = 0; line != NULL && i < scols_table_get_ncols(table); i++) {
        const char *key = scols_column_get_name(scols_table_get_column(table, i));
        char cell[CELL_MAX];
        cell_text(key, json_object_get(row, key), cell, sizeof(cell));
        (void)scols_line_set_data(line, i, cell);
    }
}

static void print_rows(const json_t *rows, FILE *out)
{
    struct libscols_table *table = new_table(out, true);
    if (table == NULL) {
        return;
    }
    add_columns(table, rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        add_line(table, json_array_get(rows, i));
    }
    (void)scols_print_table(table);
    scols_unref_table(table);
}

static bool is_rows(const json_t *value)
{
    if (!json_is_array(value)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_object(json_array_get(value, i))) {
            return false;
        }
    }
    return true;
}

/* Adds the members of `object` to `flat`, inner objects under dotted names. */
static void flatten(json_t *object, const char *prefix, json_t *flat, unsigned depth)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char name[CELL_MAX];
        (void)snprintf(name, sizeof(name), "%.255s%.255s", prefix, key);
        if (json_is_object(value) && depth < DEPTH_MAX) {
            char inner[CELL_MAX + 1];
            (void)snprintf(inner, sizeof(inner), "%s.", name);
            flatten(value, inner, flat, depth + 1);
        } else {
            (void)json_object_set(flat, name, value);
        }
    }
}

static json_t *flattened(json_t *object)
{
    json_t *flat = json_object();
    flatten(object, "", flat, 0);
    return flat;
}

/* "key  value" lines; without keys only values. */
static void print_values(json_t *values, bool has_keys, FILE *out)
{
    struct libscols_table *table = new_table(out, false);
    if (table == NULL) {
        return;
    }
    if (has_keys) {
        (void)scols_table_new_column(table, "key", 0, 0);
    }
    (void)scols_table_new_column(table, "value", 0, 0);
    const char *key;
    json_t *value;
    json_object_foreach(values, key, value)
    {
        struct libscols_line *line =
            is_rows(value) && has_keys ? NULL : scols_table_new_line(table, NULL);
        if (line != NULL) {
            char text[CELL_MAX];
            cell_text(key, value, text, sizeof(text));
            (void)scols_line_set_data(line, 0, key);
            (void)scols_line_set_data(line, has_keys, text);
        }
    }
    (void)scols_print_table(table);
    scols_unref_table(table);
}

static void print_object(json_t *object, FILE *out)
{
    json_t *flat = flattened(object);
    const char *key;
    json_t *value;
    print_values(flat, true, out);
    json_object_foreach(flat, key, value)
    {
        if (is_rows(value)) {
            if (json_object_size(flat) != 1) {
                (void)fputc('\n', out);
                amb_shown_put(out, key, strlen(key), false);
                (void)fputs(":\n", out);
            }
            if (json_array_size(value) == 0) {
                (void)fprintf(out, "(none)\n");
            }
            print_rows(value, out);
        }
    }
    json_decref(flat);
}

static void print_any(json_t *value, FILE *out)
{
    if (json_is_object(value)) {
        print_object(value, out);
    } else if (is_rows(value)) {
        print_rows(value, out);
    } else if (value != NULL) {
        json_t *alone = json_pack("{sO}", "", value);
        print_values(alone, false, out);
        json_decref(alone);
    }
}

void amb_table_print(json_t *value, FILE *out)
{
    /* Texts are UTF-8 wherever they are shown, and libsmartcols asks the thread's locale. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 != (locale_t)0 ? uselocale(utf8) : (locale_t)0;
    print_any(value, out);
    if (utf8 != (locale_t)0) {
        (void)uselocale(before);
        freelocale(utf8);
    }
}
