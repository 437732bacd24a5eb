/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/table.h"

#include "tools/common/rows.h"
#include "tools/common/shown.h"
#include "tools/common/units.h"

#include <libsmartcols.h>

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CELL_MAX 512u
#define SEPARATOR "  "
#define CUT_MIN 20u /* the least room for a text that is cut */
#define CUT_MARK "..."
#define MOMENT_MAX 253402300800.0 /* the year 10000, in seconds since 1970 */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* As the answer has it, or as the name of the column ends. "": a number of something. `row`: where
 * another column has the unit. */
static const char *unit_of(const struct amb_table_form *form, const json_t *row, const char *key)
{
    const char *unit = json_string_value(json_object_get(form->units, key));
    if (unit != NULL && unit[0] == '@') {
        unit = json_string_value(json_object_get(row, unit + 1));
        return unit != NULL ? unit : "";
    }
    return unit != NULL              ? unit
           : ends_with(key, "bytes") ? "bytes"
           : ends_with(key, "_ns")   ? "ns"
                                     : "";
}

static void put_plain(const json_t *value, char *out, size_t size)
{
    double number = json_number_value(value);
    if (json_is_integer(value)) {
        (void)snprintf(out, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (fabs(number) >= 100) {
        (void)snprintf(out, size, "%.0f", number);
    } else if (fabs(number) >= 1) {
        (void)snprintf(out, size, "%.2f", number);
    } else {
        (void)snprintf(out, size, "%.3g", number);
    }
}

/* Seconds since 1970; 0: never. */
static void put_date(double seconds, char *out, size_t size)
{
    time_t when = seconds > 0 && seconds < MOMENT_MAX ? (time_t)seconds : 0;
    struct tm tm = {0};
    if (when == 0 || gmtime_r(&when, &tm) == NULL ||
        strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        (void)snprintf(out, size, "%s", "-");
    }
}

static void number_text(const char *unit, const json_t *value, char *out, size_t size)
{
    double number = json_number_value(value);
    if (strcmp(unit, "bytes") == 0) {
        amb_units_format_bytes(number, out, size);
    } else if (strcmp(unit, "bytes/s") == 0) {
        amb_units_format_bytes(number, out, size);
        (void)snprintf(out + strlen(out), size - strlen(out), "/s");
    } else if (strcmp(unit, "ns") == 0) {
        amb_units_format_ns(number, out, size);
    } else if (strcmp(unit, "s") == 0) {
        amb_units_format_ns(number * 1e9, out, size);
    } else if (strcmp(unit, "unix_s") == 0) {
        put_date(number, out, size);
    } else {
        put_plain(value, out, size);
    }
}

static void scalar_text(const char *unit, const json_t *value, char *out, size_t size)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        (void)snprintf(out, size, "%s", json_string_value(value));
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        number_text(unit, value, out, size);
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

static void cell_text(const char *unit, const json_t *value, char *out, size_t size)
{
    out[0] = '\0';
    if (json_is_array(value)) {
        size_t used = 0;
        for (size_t i = 0; i < json_array_size(value) && used + 2 < size; i++) {
            if (i > 0) {
                out[used++] = ',';
            }
            scalar_text(unit, json_array_get(value, i), out + used, size - used);
            used += strlen(out + used);
        }
    } else if (value != NULL) {
        scalar_text(unit, value, out, size);
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
        (void)scols_table_set_column_separator(table, SEPARATOR);
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

/* Characters of a text of UTF-8. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static size_t column_width(const struct amb_table_form *form, const char *key, const json_t *rows)
{
    size_t width = text_width(key);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char cell[CELL_MAX];
        const json_t *row = json_array_get(rows, i);
        cell_text(unit_of(form, row, key), json_object_get(row, key), cell, sizeof(cell));
        size_t len = text_width(cell);
        width = len > width ? len : width;
    }
    return width;
}

/* The columns that fit, the first one at least. */
struct fitting {
    size_t count;
    size_t cut; /* the last of them has so much room, and its texts are cut; 0: it fits */
};

/* Width 0: all, and no cell is looked at. The first column that does not fit is cut if it has texts
 * and there is some room for it. */
static struct fitting find_fitting(struct libscols_table *table, const json_t *rows,
                                   const struct amb_table_form *form)
{
    struct fitting fitting = {.count = scols_table_get_ncols(table)};
    size_t used = 0;
    for (size_t i = 0; form->width > 0 && i < fitting.count; i++) {
        struct libscols_column *column = scols_table_get_column(table, i);
        size_t before = used + (i > 0 ? strlen(SEPARATOR) : 0);
        used = before + column_width(form, scols_column_get_name(column), rows);
        if (i > 0 && used > form->width) {
            bool is_text = (scols_column_get_flags(column) & SCOLS_FL_RIGHT) == 0;
            bool is_cut = is_text && before + CUT_MIN <= form->width;
            fitting.cut = is_cut ? form->width - before : 0;
            fitting.count = i + is_cut;
        }
    }
    return fitting;
}

/* The first columns of a table, in one of its own; libsmartcols does not take out some. */
static struct libscols_table *first_columns(struct libscols_table *table, size_t count, FILE *out,
                                            bool has_head)
{
    struct libscols_table *first = new_table(out, has_head);
    for (size_t i = 0; first != NULL && i < count; i++) {
        struct libscols_column *column = scols_table_get_column(table, i);
        (void)scols_table_new_column(first, scols_column_get_name(column), 0,
                                     scols_column_get_flags(column));
    }
    scols_unref_table(table);
    return first;
}

/* At most so many characters; a text that is longer ends with a mark. */
static void cut_text(char *text, size_t room)
{
    if (text_width(text) <= room) {
        return;
    }
    char *at = text;
    for (size_t kept = 0; kept + strlen(CUT_MARK) < room; kept++) {
        at++;
        while (((unsigned char)*at & 0xc0) == 0x80) {
            at++;
        }
    }
    memcpy(at, CUT_MARK, sizeof(CUT_MARK));
}

/* cut: the room of its last column; 0: any. */
static void add_line(struct libscols_table *table, const json_t *row,
                     const struct amb_table_form *form, size_t cut)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);
    for (size_t i = 0; line != NULL && i < scols_table_get_ncols(table); i++) {
        const char *key = scols_column_get_name(scols_table_get_column(table, i));
        char cell[CELL_MAX];
        cell_text(unit_of(form, row, key), json_object_get(row, key), cell, sizeof(cell));
        if (cut > 0 && i + 1 == scols_table_get_ncols(table)) {
            cut_text(cell, cut);
        }
        (void)scols_line_set_data(line, i, cell);
    }
}

/* Returns how many columns were left out. */
static size_t print_rows(const json_t *rows, const struct amb_table_form *form, FILE *out)
{
    size_t hidden = 0;
    struct fitting fitting = {0};
    struct libscols_table *table = new_table(out, !form->has_no_head);
    if (table != NULL) {
        add_columns(table, rows);
        fitting = find_fitting(table, rows, form);
        hidden = scols_table_get_ncols(table) - fitting.count;
        table = hidden == 0 ? table : first_columns(table, fitting.count, out, !form->has_no_head);
    }
    if (table == NULL) {
        return 0;
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        add_line(table, json_array_get(rows, i), form, fitting.cut);
    }
    (void)scols_print_table(table);
    scols_unref_table(table);
    return hidden;
}

/* "key  value" lines; without keys only values. */
static void print_values(json_t *values, bool has_keys, const struct amb_table_form *form,
                         FILE *out)
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
            amb_rows_are(value) && has_keys ? NULL : scols_table_new_line(table, NULL);
        if (line != NULL) {
            char text[CELL_MAX];
            cell_text(unit_of(form, values, key), value, text, sizeof(text));
            (void)scols_line_set_data(line, 0, key);
            (void)scols_line_set_data(line, has_keys, text);
        }
    }
    (void)scols_print_table(table);
    scols_unref_table(table);
}

static size_t print_object(json_t *object, const struct amb_table_form *form, FILE *out)
{
    size_t hidden = 0;
    json_t *flat = amb_rows_flattened(object);
    const char *key;
    json_t *value;
    print_values(flat, true, form, out);
    json_object_foreach(flat, key, value)
    {
        if (amb_rows_are(value)) {
            if (json_object_size(flat) != 1) {
                (void)fputc('\n', out);
                amb_shown_put(out, key, strlen(key), false);
                (void)fputs(":\n", out);
            }
            if (json_array_size(value) == 0) {
                (void)fprintf(out, "(none)\n");
            }
            hidden += print_rows(value, form, out);
        }
    }
    json_decref(flat);
    return hidden;
}

static size_t print_any(json_t *value, const struct amb_table_form *form, FILE *out)
{
    if (json_is_object(value)) {
        return print_object(value, form, out);
    }
    if (amb_rows_are(value)) {
        return print_rows(value, form, out);
    }
    if (value != NULL) {
        json_t *alone = json_pack("{sO}", "", value);
        print_values(alone, false, form, out);
        json_decref(alone);
    }
    return 0;
}

size_t amb_table_print_as(json_t *value, const struct amb_table_form *form, FILE *out)
{
    /* Texts are UTF-8 wherever they are shown, and libsmartcols asks the thread's locale. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 != (locale_t)0 ? uselocale(utf8) : (locale_t)0;
    size_t hidden = print_any(value, form, out);
    if (utf8 != (locale_t)0) {
        (void)uselocale(before);
        freelocale(utf8);
    }
    return hidden;
}

void amb_table_print(json_t *value, FILE *out)
{
    static const struct amb_table_form whole = {.width = 0};
    (void)amb_table_print_as(value, &whole, out);
}
