/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/print/config_print.h"

#include "broker/config/print/config_changes.h"
#include "wire/base/assert.h"
#include "wire/config/config_format.h"

#include <string.h>

#define VALUES_MAX 128u /* of two values together */
#define CHANGE_MAX 1024u

void amb_config_print(const struct amb_config *config, FILE *out)
{
    amb_config_rows_print(config->store, config, out);
}

/* Adds ", name"; once something did not fit, the list ends in "...". */
static void append_name(char *list, size_t size, const char *name)
{
    static const char cut[] = "...";
    size_t len = strlen(list);
    if (len >= 3 && strcmp(list + len - 3, cut) == 0) {
        return;
    }
    /* Room for ", ..." stays behind every name. */
    const char *comma = len == 0 ? "" : ", ";
    bool fits = len + strlen(comma) + strlen(name) + sizeof(", ...") <= size;
    (void)snprintf(list + len, size - len, "%s%s", comma, fits ? name : cut);
}

/* The two lists of amb_config_diff. */
struct lists {
    char *restart, *live;
    size_t restart_size, live_size;
};

/* "limits.window 8M -> 1M (broker.conf:3)". Values that are long, or are not shown, are left out.
 */
static void append_change(void *arg, const struct amb_config_change *change)
{
    const struct lists *lists = arg;
    char text[CHANGE_MAX];
    const char *before = change->before, *after = change->after;
    bool is_short = before != NULL && after != NULL && strlen(before) + strlen(after) < VALUES_MAX;
    if (is_short) {
        (void)snprintf(text, sizeof(text), "%s %s -> %s (%s)", change->key, before, after,
                       change->place);
    } else {
        (void)snprintf(text, sizeof(text), "%s (%s)", change->key, change->place);
    }
    if (change->apply == AMB_CONFIG_RESTART) {
        append_name(lists->restart, lists->restart_size, text);
    } else {
        append_name(lists->live, lists->live_size, text);
    }
}

void amb_config_diff(const struct amb_config *before, const struct amb_config *after, char *restart,
                     size_t restart_size, char *live, size_t live_size)
{
    amb_assert(restart_size > 8 && live_size > 8);
    restart[0] = live[0] = '\0';
    struct lists lists = {restart, live, restart_size, live_size};
    amb_config_changes(before, after, append_change, &lists);
}
