/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/rows.h"

#include "tools/common/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 32u

static const char *unit_of(enum amb_top_kind kind)
{
    switch (kind) {
    case AMB_TOP_BYTES:
        return "_bytes";
    case AMB_TOP_NS:
        return "_ns";
    case AMB_TOP_RATE:
    case AMB_TOP_BYTE_RATE:
        return "_per_s";
    case AMB_TOP_TEXT:
    case AMB_TOP_COUNT:
    case AMB_TOP_NUMBER:
        break;
    }
    return "";
}

const char *amb_top_rows_key(const struct amb_top_column *column, char out[KEY_BYTES])
{
    size_t len = 0;
    for (const char *at = column->title; *at != '\0' && *at != '/' && len + 8 < KEY_BYTES; at++) {
        out[len++] = *at == ' ' ? '_' : (char)tolower((unsigned char)*at);
    }
    (void)snprintf(out + len, KEY_BYTES - len, "%s", unit_of(column->kind));
    return out;
}

static json_t *value_of(const struct amb_top_row *row, const struct amb_top_column *column,
                        size_t at)
{
    if (column->kind == AMB_TOP_TEXT) {
        return json_string(amb_top_row_text(row, column));
    }
    if ((row->known >> at & 1u) == 0) {
        return json_null();
    }
    if (column->kind == AMB_TOP_RATE || column->kind == AMB_TOP_BYTE_RATE) {
        json_t *rate = json_real(row->value[at]);
        return rate != NULL ? rate : json_null(); /* JSON has no infinity. */
    }
    return json_integer(amb_units_whole(row->value[at]));
}

static json_t *object_of(const struct amb_top_sample *sample, const struct amb_top_row *row)
{
    const struct amb_top_lens *lens = sample->table->lens;
    json_t *object = json_pack("{s:I}", "time_ns", (json_int_t)sample->real_ns);
    for (size_t i = 0; i < lens->count; i++) {
        char key[KEY_BYTES];
        (void)json_object_set_new(object, amb_top_rows_key(&lens->columns[i], key),
                                  value_of(row, &lens->columns[i], i));
    }
    return object;
}

json_t *amb_top_rows(const struct amb_top_sample *sample, const struct amb_top_state *state,
                     size_t rows)
{
    size_t count;
    size_t *shown = amb_top_table_show(sample->table, amb_top_state_order(state), &count);
    json_t *array = json_array();
    for (size_t i = 0; shown != NULL && i < count && (rows == 0 || i < rows); i++) {
        (void)json_array_append_new(array, object_of(sample, &sample->table->rows[shown[i]]));
    }
    json_t *block = shown == NULL ? NULL : json_pack("{s:O}", sample->table->lens->query, array);
    if (sample->note[0] != '\0' && block != NULL) {
        (void)json_object_set_new(block, "note", json_string(sample->note));
    }
    json_decref(array);
    free(shown);
    return block;
}
