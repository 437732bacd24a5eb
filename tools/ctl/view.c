/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/view.h"

#include "tools/common/output.h"
#include "tools/common/rows.h"
#include "tools/ctl/connect.h"

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
    return amb_cli_ns(line, "watch", 0);
}

/* With --columns: these alone. NULL: there are no such, which has been said. */
static json_t *pick(const struct amb_ctl *ctl, json_t *value)
{
    char why[COLUMNS_MAX];
    json_t *rows = amb_rows_of(value);
    bool is_one = json_is_object(value) && json_object_get(value, ctl->query) == NULL;
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
    json_t *whole =
        is_one ? json_incref(json_array_get(picked, 0)) : json_pack("{s:O}", ctl->query, picked);
    json_decref(picked);
    return whole;
}

enum amb_exit amb_ctl_show(const struct amb_ctl *ctl, json_t *value)
{
    if (is_view(ctl->line) && amb_cli_has(ctl->line, "columns")) {
        json_t *picked = pick(ctl, value);
        json_decref(value);
        if (picked == NULL) {
            return AMB_EXIT_USAGE;
        }
        value = picked;
    }
    size_t hidden = amb_ctl_print(ctl, value);
    if (hidden > 0 && !amb_output_is_unread()) {
        (void)fflush(stdout);
        amb_tool_error("%s: %zu more columns: --wide has all, --columns a choice",
                       ctl->line->called, hidden);
    }
    return AMB_EXIT_OK;
}
