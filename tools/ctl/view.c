/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/view.h"

#include "tools/common/output.h"
#include "tools/common/rows.h"
#include "tools/ctl/connect.h"
#include "wire/counters/units.h"

#include <stdio.h>

#define COLUMNS_MAX 1024u /* bytes of all names of columns */
#define TABLE_WIDTH 100u

/* Has the command --columns and the like? */
static bool is_view(const struct amb_cli_line *line)
{
    return amb_cli_option_named(line->command->options, "columns") != NULL;
}

int64_t amb_ctl_take_form(struct amb_ctl *ctl)
{
    const struct amb_cli_line *line = ctl->line;
    if (!is_view(line)) {
        return 0;
    }
    bool is_wide = amb_cli_has(line, "wide") || amb_cli_has(line, "columns");
    ctl->width = is_wide ? 0 : TABLE_WIDTH;
    ctl->has_no_head = amb_cli_has(line, "no-header");
    bool may_repeat = amb_cli_option_named(line->command->options, "watch") != NULL;
    return may_repeat ? amb_cli_ns(line, "watch", 0) : 0;
}

/* The key of the rows; NULL: the answer is one row itself. */
static const char *rows_key(json_t *value)
{
    const char *key;
    json_t *inner;
    json_object_foreach(value, key, inner)
    {
        if (json_is_array(inner) && amb_rows_are(inner)) {
            return key;
        }
    }
    return NULL;
}

/* With --columns: these alone. NULL: there are no such, which has been said. */
static json_t *pick(const struct amb_ctl *ctl, json_t *value)
{
    char why[COLUMNS_MAX];
    json_t *rows = amb_rows_of(value);
    const char *key = rows_key(value);
    json_t *picked =
        rows == NULL ? NULL
                     : amb_rows_pick(rows, amb_cli_text(ctl->line, "columns"), why, sizeof(why));
    if (rows != NULL && picked == NULL) {
        amb_tool_error("%s --columns: %s", ctl->line->called, why);
    }
    json_decref(rows);
    if (picked == NULL) {
        return NULL;
    }
    json_t *whole = key == NULL && json_is_object(value)
                        ? json_incref(json_array_get(picked, 0))
                        : json_pack("{s:O}", key == NULL ? ctl->query : key, picked);
    json_decref(picked);
    return whole;
}

/* The units that the answer has, out of it; a new reference. NULL: it has none. */
static json_t *take_units(json_t *value)
{
    json_t *units = json_object_get(value, AMB_COUNTERS_UNITS);
    if (!json_is_object(units)) {
        return NULL;
    }
    (void)json_incref(units);
    (void)json_object_del(value, AMB_COUNTERS_UNITS);
    return units;
}

/* Of the columns that are there. */
static void put_units_back(json_t *value, json_t *units)
{
    json_t *rows = amb_rows_of(value), *kept = json_object(), *unit;
    const char *key;
    json_object_foreach(units, key, unit)
    {
        bool is_there = json_array_size(rows) == 0;
        for (size_t i = 0; i < json_array_size(rows) && !is_there; i++) {
            is_there = json_object_get(json_array_get(rows, i), key) != NULL;
        }
        if (is_there) {
            (void)json_object_set(kept, key, unit);
        }
    }
    json_decref(rows);
    (void)json_object_set_new(value, AMB_COUNTERS_UNITS, kept);
}

enum amb_exit amb_ctl_show(const struct amb_ctl *ctl, json_t *value)
{
    json_t *units = take_units(value);
    bool has_columns = is_view(ctl->line) && amb_cli_has(ctl->line, "columns");
    if (has_columns) {
        json_t *picked = pick(ctl, value);
        json_decref(value);
        if (picked == NULL) {
            json_decref(units);
            return AMB_EXIT_USAGE;
        }
        value = picked;
    }
    if (units != NULL && ctl->form == AMB_CLI_FORM_JSON) {
        put_units_back(value, units);
    }
    struct amb_ctl with = *ctl;
    with.units = units;
    size_t hidden = amb_ctl_print(&with, value);
    json_decref(units);
    if (hidden > 0 && !amb_output_is_unread()) {
        (void)fflush(stdout);
        amb_tool_error("%s: %zu more columns: --wide has all, --columns a choice",
                       ctl->line->called, hidden);
    }
    return AMB_EXIT_OK;
}
