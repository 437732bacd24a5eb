/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/rows.h"

#include "tools/common/shown.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 512u
#define DEPTH_MAX 8u

/* Adds the members of `object` to `flat`, inner objects under dotted names. */
static void flatten(json_t *object, const char *prefix, json_t *flat, unsigned depth)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char name[NAME_MAX_BYTES], inner[NAME_MAX_BYTES + 1];
        (void)snprintf(name, sizeof(name), "%.255s%.255s", prefix, key);
        if (json_is_object(value) && depth < DEPTH_MAX) {
            (void)snprintf(inner, sizeof(inner), "%s.", name);
            flatten(value, inner, flat, depth + 1);
        } else {
            (void)json_object_set(flat, name, value);
        }
    }
}

json_t *amb_rows_flattened(json_t *object)
{
    json_t *flat = json_object();
    flatten(object, "", flat, 0);
    return flat;
}

bool amb_rows_are(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!json_is_object(json_array_get(array, i))) {
            return false;
        }
    }
    return json_is_array(array);
}

const char *amb_rows_text(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL ? text : "";
}

uint64_t amb_rows_number(const json_t *row, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(row, key));
    return number > 0 ? (uint64_t)number : 0;
}

/* The only array of objects in an object; NULL: there is none, or several. */
static json_t *only_array(json_t *object)
{
    json_t *found = NULL;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (amb_rows_are(value)) {
            if (found != NULL) {
                return NULL;
            }
            found = value;
        }
    }
    return found;
}

json_t *amb_rows_of(json_t *value)
{
    json_t *array = json_is_object(value) ? only_array(value) : value;
    json_t *rows = json_array();
    if (array != NULL && !amb_rows_are(array)) {
        json_decref(rows);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(array); i++) {
        (void)json_array_append_new(rows, amb_rows_flattened(json_array_get(array, i)));
    }
    if (array == NULL) {
        (void)json_array_append_new(rows, amb_rows_flattened(value));
    }
    return rows;
}

/* One for each key, in the order met; a new reference. */
static json_t *columns_of(const json_t *rows)
{
    json_t *columns = json_object(), *row, *value;
    size_t i;
    const char *key;
    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, value)
        {
            (void)json_object_set_new(columns, key, json_null());
        }
    }
    return columns;
}

static void refuse(const char *name, json_t *columns, char *why, size_t size)
{
    size_t len = (size_t)snprintf(why, size, "there is no %.60s; there are", name);
    const char *key, *before = " ";
    json_t *value;
    json_object_foreach(columns, key, value)
    {
        if (len < size) {
            len += (size_t)snprintf(why + len, size - len, "%s%s", before, key);
        }
        before = ", ";
    }
}

static json_t *pick_row(const json_t *row, json_t *names)
{
    json_t *picked = json_object(), *name;
    size_t i;
    json_array_foreach(names, i, name)
    {
        json_t *value = json_object_get(row, json_string_value(name));
        (void)json_object_set_new(picked, json_string_value(name),
                                  value != NULL ? json_incref(value) : json_null());
    }
    return picked;
}

/* The names of "a,b"; NULL: one of them is no column. */
static json_t *names_of(const char *text, json_t *columns, char *why, size_t size)
{
    json_t *names = json_array();
    while (*text != '\0') {
        char name[NAME_MAX_BYTES];
        size_t len = strcspn(text, ",");
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, text);
        if (json_object_size(columns) > 0 && json_object_get(columns, name) == NULL) {
            refuse(name, columns, why, size);
            json_decref(names);
            return NULL;
        }
        (void)json_array_append_new(names, json_string(name));
        text += len;
        text += *text == ',';
    }
    return names;
}

json_t *amb_rows_pick(const json_t *rows, const char *columns, char *why, size_t size)
{
    json_t *all = columns_of(rows);
    json_t *names = names_of(columns, all, why, size);
    json_t *picked = names != NULL ? json_array() : NULL;
    for (size_t i = 0; names != NULL && i < json_array_size(rows); i++) {
        (void)json_array_append_new(picked, pick_row(json_array_get(rows, i), names));
    }
    json_decref(names);
    json_decref(all);
    return picked;
}

void amb_rows_print_jsonl(const json_t *rows, FILE *out)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        (void)json_dumpf(json_array_get(rows, i), out, JSON_COMPACT | JSON_REAL_PRECISION(6));
        (void)fputc('\n', out);
    }
}

/* "-1.5": a number with its sign, or the sign alone, which is a mark of nothing. */
static bool is_signed_number(const char *text)
{
    char *end;
    bool has_digits = (text[1] >= '0' && text[1] <= '9') || text[1] == '.';
    (void)strtod(text, &end);
    return text[1] == '\0' || (has_digits && *end == '\0');
}

/* Would a spreadsheet run it? */
static bool is_formula(const char *text)
{
    if (text[0] == '+' || text[0] == '-') {
        return !is_signed_number(text);
    }
    return text[0] != '\0' && strchr("=@\t\r", text[0]) != NULL;
}

/* Quoted where it has to be. Control characters of strangers would drive a terminal, and a formula
 * of theirs a spreadsheet: an apostrophe before it makes a text of it there. */
static void print_field(const char *text, FILE *out)
{
    bool is_quoted = strpbrk(text, ",\"\r\n") != NULL;
    (void)fputs(is_quoted ? "\"" : "", out);
    (void)fputs(is_formula(text) ? "'" : "", out);
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\"")) {
        if (*at == '"') {
            (void)fputs("\"\"", out);
            at++;
        }
        amb_shown_put(out, at, strcspn(at, "\""), true);
    }
    (void)fputs(is_quoted ? "\"" : "", out);
}

static void print_value(const json_t *value, FILE *out)
{
    if (json_is_string(value)) {
        print_field(json_string_value(value), out);
    } else if (value != NULL && !json_is_null(value)) {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        print_field(text != NULL ? text : "", out);
        free(text);
    }
}

static void print_line(const json_t *row, json_t *columns, FILE *out)
{
    const char *key, *before = "";
    json_t *value;
    json_object_foreach(columns, key, value)
    {
        (void)fputs(before, out);
        if (row == NULL) {
            print_field(key, out);
        } else {
            print_value(json_object_get(row, key), out);
        }
        before = ",";
    }
    (void)fputc('\n', out);
}

void amb_rows_print_csv(const json_t *rows, bool has_head, FILE *out)
{
    json_t *columns = columns_of(rows);
    if (has_head && json_object_size(columns) > 0) {
        print_line(NULL, columns, out);
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        print_line(json_array_get(rows, i), columns, out);
    }
    json_decref(columns);
}
