/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/table.h"

#include "tools/common/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX 512u
#define COLUMNS_MAX 64u
#define DEPTH_MAX 8u

struct column {
    const char *key;
    size_t width;
    bool is_number;
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void clean_copy(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < size; n++) {
        unsigned char c = (unsigned char)text[n];
        out[n] = c < 0x20 || c == 0x7f ? '?' : (char)c;
        if (n > 0 && (unsigned char)text[n - 1] == 0xc2 && c >= 0x80 && c < 0xa0) {
            out[n - 1] = out[n] = '?';
        }
    }
    out[n] = '\0';
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
        clean_copy(json_string_value(value), out, size);
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        number_text(key, value, out, size);
        break;
    case JSON_TRUE:
        clean_copy("yes", out, size);
        break;
    case JSON_FALSE:
        clean_copy("no", out, size);
        break;
    case JSON_NULL:
        clean_copy("-", out, size);
        break;
    case JSON_OBJECT:
    case JSON_ARRAY:
        clean_copy("...", out, size);
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
        clean_copy("-", out, size);
    }
}

/* Characters, not bytes. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void put_padded(FILE *out, const char *text, size_t width, bool is_right, bool is_last)
{
    size_t own = text_width(text);
    int pad = own < width ? (int)(width - own) : 0;
    if (is_right) {
        (void)fprintf(out, "%*s%s", pad, "", text);
    } else {
        (void)fprintf(out, "%s%*s", text, is_last ? 0 : pad, "");
    }
    (void)fputs(is_last ? "\n" : "  ", out);
}

static size_t find_columns(const json_t *rows, struct column *columns)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *key;
        json_t *value;
        json_object_foreach(row, key, value)
        {
            size_t c = 0;
            while (c < count && strcmp(columns[c].key, key) != 0) {
                c++;
            }
            if (c == COLUMNS_MAX) {
                continue;
            }
            if (c == count) {
                char head[CELL_MAX];
                clean_copy(key, head, sizeof(head));
                columns[count++] =
                    (struct column){.key = key, .width = text_width(head), .is_number = true};
            }
            char cell[CELL_MAX];
            cell_text(key, value, cell, sizeof(cell));
            size_t width = text_width(cell);
            columns[c].width = width > columns[c].width ? width : columns[c].width;
            columns[c].is_number =
                columns[c].is_number && (json_is_number(value) || json_is_null(value));
        }
    }
    return count;
}

static void print_rows(const json_t *rows, FILE *out)
{
    struct column columns[COLUMNS_MAX];
    size_t count = find_columns(rows, columns);
    char cell[CELL_MAX];
    for (size_t c = 0; c < count; c++) {
        clean_copy(columns[c].key, cell, sizeof(cell));
        put_padded(out, cell, columns[c].width, columns[c].is_number, c + 1 == count);
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        for (size_t c = 0; c < count; c++) {
            cell_text(columns[c].key, json_object_get(json_array_get(rows, i), columns[c].key),
                      cell, sizeof(cell));
            put_padded(out, cell, columns[c].width, columns[c].is_number, c + 1 == count);
        }
    }
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

static void print_object(json_t *object, FILE *out)
{
    json_t *flat = flattened(object);
    size_t width = 0;
    size_t scalars = 0;
    const char *key;
    json_t *value;
    char text[CELL_MAX];
    json_object_foreach(flat, key, value)
    {
        if (!is_rows(value)) {
            clean_copy(key, text, sizeof(text));
            size_t own = text_width(text);
            width = own > width ? own : width;
            scalars++;
        }
    }
    json_object_foreach(flat, key, value)
    {
        if (!is_rows(value)) {
            clean_copy(key, text, sizeof(text));
            put_padded(out, text, width, false, false);
            cell_text(key, value, text, sizeof(text));
            (void)fprintf(out, "%s\n", text);
        }
    }
    bool is_alone = scalars == 0 && json_object_size(flat) == 1;
    json_object_foreach(flat, key, value)
    {
        if (is_rows(value)) {
            if (!is_alone) {
                clean_copy(key, text, sizeof(text));
                (void)fprintf(out, "\n%s:\n", text);
            }
            if (json_array_size(value) == 0) {
                (void)fprintf(out, "(none)\n");
            }
            print_rows(value, out);
        }
    }
    json_decref(flat);
}

void amb_table_print(json_t *value, FILE *out)
{
    if (json_is_object(value)) {
        print_object(value, out);
    } else if (is_rows(value)) {
        print_rows(value, out);
    } else if (value != NULL) {
        char text[CELL_MAX];
        cell_text("", value, text, sizeof(text));
        (void)fprintf(out, "%s\n", text);
    }
}
