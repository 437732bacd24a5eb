/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/about.h"

#include "tools/cli/help.h"
#include "tools/cli/shells.h"
#include "tools/cli/tables.h"
#include "tools/ctl/habit.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 4 /* "broker-ctl", a noun, a verb, and one too many */

/* "help user add" is "user add --help", with its faults. */
enum amb_exit amb_ctl_help(struct amb_ctl *ctl)
{
    static char program[] = "broker-ctl", help[] = "--help";
    char *words[WORDS_MAX + 2] = {program}, error[AMB_CLI_ERROR_MAX];
    int count = 1;
    for (size_t i = 0; i < ctl->line->arg_count && count < WORDS_MAX; i++) {
        words[count++] = ctl->line->args[i];
    }
    words[count++] = help;
    struct amb_cli_line line;
    enum amb_status status =
        amb_cli_parse(&amb_cli_broker_ctl, count, words, &line, error, sizeof(error));
    if (status != AMB_OK) {
        amb_tool_error("help %s", error);
        return amb_exit_of(status);
    }
    amb_cli_help_line(&line, stdout);
    amb_cli_fini(&line);
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_version(struct amb_ctl *ctl)
{
    (void)ctl;
    (void)printf("broker-ctl %s\n", amb_version());
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_completion(struct amb_ctl *ctl)
{
    bool is_known = amb_cli_shell_print(&amb_cli_broker_ctl, ctl->line->args[0], stdout);
    return is_known ? AMB_EXIT_OK : AMB_EXIT_USAGE; /* The table has the shells. */
}

void amb_ctl_hint(const struct amb_cli_line *line)
{
    const struct amb_cli_arg *arg = line->command->args;
    if (arg == NULL || arg->type != AMB_CLI_PATTERN || line->arg_count == 0) {
        return;
    }
    const char *hint = amb_habit_of_pattern(line->args[0]);
    if (hint != NULL) {
        amb_tool_error("%s %.80s: %s", line->called, line->args[0], hint);
    }
}
