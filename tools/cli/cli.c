/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cli.h"

#include "tools/cli/value.h"
#include "wire/base/text.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_SHOWN_MAX (UINT64_MAX / 4) /* an end beyond it is none for people */

const char *amb_cli_option_shown(const struct amb_cli_option *option, char *out)
{
    if (option->name != NULL) {
        (void)snprintf(out, AMB_CLI_NAME_MAX, "--%s", option->name);
    } else {
        (void)snprintf(out, AMB_CLI_NAME_MAX, "-%c", option->letter);
    }
    return out;
}

const struct amb_cli_option *amb_cli_option_named(const struct amb_cli_option *options,
                                                  const char *name)
{
    for (; options != NULL && amb_cli_is_option(options); options++) {
        bool is_letter = name[0] != '\0' && name[1] == '\0' && name[0] == options->letter;
        bool is_name = options->name != NULL && strcmp(options->name, name) == 0;
        bool is_former = options->former != NULL && strcmp(options->former, name) == 0;
        if (is_letter || is_name || is_former) {
            return options;
        }
    }
    return NULL;
}

const struct amb_cli_option *amb_cli_option_find(const struct amb_cli_program *program,
                                                 const struct amb_cli_command *command,
                                                 const char *name)
{
    const struct amb_cli_option *own =
        command == NULL ? NULL : amb_cli_option_named(command->options, name);
    return own != NULL ? own : amb_cli_option_named(program->options, name);
}

bool amb_cli_list_has(const char *list, const char *name)
{
    return list != NULL && amb_text_list_has(list, name);
}

bool amb_cli_takes(const struct amb_cli_command *command, const struct amb_cli_option *option)
{
    return command == NULL || option->name == NULL ||
           !amb_cli_list_has(command->refuses, option->name);
}

const struct amb_cli_command *amb_cli_command_named(const struct amb_cli_program *program,
                                                    const char *name)
{
    for (const struct amb_cli_command *c = program->commands; c != NULL && c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
        for (const char *const *alias = c->aliases; alias != NULL && *alias != NULL; alias++) {
            if (strcmp(*alias, name) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

static void format_limit(const struct amb_cli_option *option, uint64_t limit, char *out,
                         size_t size)
{
    if (option->type == AMB_CLI_SIZE) {
        amb_text_format_size(limit, out, size);
    } else if (option->type == AMB_CLI_TIME) {
        amb_text_format_time((int64_t)limit, out, size);
    } else {
        (void)snprintf(out, size, "%llu", (unsigned long long)limit);
    }
}

/* ", 1 to 256"; nothing where there are no limits that tell a person anything. */
static void format_range(const struct amb_cli_option *option, char *out, size_t size)
{
    char min[AMB_TEXT_MAX], max[AMB_TEXT_MAX];
    bool has_max = option->max != 0 && option->max < NUMBER_SHOWN_MAX;
    format_limit(option, option->min, min, sizeof(min));
    format_limit(option, option->max, max, sizeof(max));
    if (has_max) {
        (void)snprintf(out, size, ", %s to %s", min, max);
    } else if (option->min > 1 || (option->min == 1 && option->type == AMB_CLI_COUNT)) {
        (void)snprintf(out, size, ", from %s", min);
    } else {
        (void)snprintf(out, size, "%s", option->min == 1 ? ", above 0" : "");
    }
}

const char *amb_cli_allowed(const struct amb_cli_option *option, char *out, size_t size)
{
    char range[3 * AMB_TEXT_MAX];
    const char *of = option->unit != NULL ? " of " : "";
    const char *unit = option->unit != NULL ? option->unit : "";
    format_range(option, range, sizeof(range));
    switch (option->type) {
    case AMB_CLI_FLAG:
        (void)snprintf(out, size, "no value");
        break;
    case AMB_CLI_COUNT:
        (void)snprintf(out, size, "a number%s%s%s", of, unit, range);
        break;
    case AMB_CLI_SIZE:
        (void)snprintf(out, size, "bytes%s%s, as 64k or 1MiB%s", of, unit, range);
        break;
    case AMB_CLI_TIME:
        (void)snprintf(out, size, "a time, as 10, 500ms or 2m%s", range);
        break;
    case AMB_CLI_RATE:
        (void)snprintf(out, size, "a number%s%s, above 0", of, unit);
        break;
    case AMB_CLI_WORD:
        (void)amb_cli_words_shown(option->words, out, size);
        break;
    case AMB_CLI_FILE:
        (void)snprintf(out, size, "a file");
        break;
    case AMB_CLI_FOLDER:
        (void)snprintf(out, size, "a folder");
        break;
    case AMB_CLI_PATTERN:
        (void)snprintf(out, size, "a pattern of topics, as a.* or a.>");
        break;
    case AMB_CLI_TEXT:
        (void)snprintf(out, size, "%s",
                       option->fault != NULL ? option->fault(option->wrong) : "a text");
        if (option->fault == NULL && option->max != 0) {
            (void)snprintf(out, size, "a text, %llu to %llu bytes", (unsigned long long)option->min,
                           (unsigned long long)option->max);
        }
        break;
    }
    return out;
}

const char *amb_cli_args_shown(const struct amb_cli_command *command, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (const struct amb_cli_arg *arg = command->args; arg != NULL && arg->name != NULL; arg++) {
        int n = snprintf(out + len, size - len, "%s%s%s%s%s", len > 0 ? " " : "",
                         arg->is_optional ? "[" : "", arg->name, arg->is_many ? "..." : "",
                         arg->is_optional ? "]" : "");
        len += n > 0 && (size_t)n < size - len ? (size_t)n : 0;
    }
    return out;
}
