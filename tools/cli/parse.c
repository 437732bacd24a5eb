/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/parse.h"

#include "tools/cli/walk.h"
#include "wire/base/assert.h"
#include "wire/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWED_MAX 320u
#define VALUE_SHOWN_MAX 84u

/* The key of a row, for lookups. */
static const char *key_of(const struct amb_cli_option *option, char letter[2])
{
    if (option->name != NULL) {
        return option->name;
    }
    letter[0] = option->letter;
    letter[1] = '\0';
    return letter;
}

static bool is_given(const struct amb_cli_line *line, const char *name)
{
    for (size_t i = 0; i < line->given_count; i++) {
        const char *given = line->given[i].option->name;
        if (given != NULL && strcmp(given, name) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what was given, once the command is known ---- */

/* The row of the option for this command; NULL: the command does not take it. */
static const struct amb_cli_option *row_of(const struct amb_cli_line *line,
                                           const struct amb_cli_option *option)
{
    char letter[2];
    const struct amb_cli_option *row =
        amb_cli_option_find(line->program, line->command, key_of(option, letter));
    return row != NULL && amb_cli_takes(line->command, row) ? row : NULL;
}

static enum amb_status refuse_here(struct amb_cli_walk *walk, const struct amb_cli_given *given)
{
    const struct amb_cli_option *option = given->option;
    const struct amb_cli_command *command = walk->line->command;
    char shown[AMB_CLI_NAME_MAX];
    bool has_reason = option->name != NULL && amb_cli_list_has(command->refuses, option->name) &&
                      command->why != NULL;
    return amb_cli_walk_fail(walk, amb_cli_given_shown(option, given->is_letter, shown), "%s",
                             has_reason ? command->why : "is no option of this command");
}

/* Rows and values. */
static enum amb_status take_values(struct amb_cli_walk *walk)
{
    struct amb_cli_line *line = walk->line;
    for (size_t i = 0; i < line->given_count; i++) {
        struct amb_cli_given *given = &line->given[i];
        const struct amb_cli_option *row = row_of(line, given->option);
        char shown[AMB_CLI_NAME_MAX], why[AMB_CLI_ERROR_MAX], what[3 * AMB_CLI_NAME_MAX];
        if (row == NULL) {
            return refuse_here(walk, given);
        }
        given->option = row;
        if (row->type == AMB_CLI_FLAG) {
            continue;
        }
        const char *text = given->value.text;
        if (!amb_cli_value_take(row, text, &given->value, why, sizeof(why))) {
            char value[VALUE_SHOWN_MAX];
            (void)snprintf(what, sizeof(what), "%s '%s'",
                           amb_cli_given_shown(row, given->is_letter, shown),
                           amb_text_show(text, value, sizeof(value)));
            return amb_cli_walk_fail(walk, what, "%s", why);
        }
    }
    return AMB_OK;
}

/* Options that exclude or need others, and how often each came. */
static enum amb_status check_together(struct amb_cli_walk *walk)
{
    const struct amb_cli_line *line = walk->line;
    char shown[AMB_CLI_NAME_MAX], letter[2];
    for (size_t i = 0; i < line->given_count; i++) {
        const struct amb_cli_option *option = line->given[i].option;
        for (size_t j = 0; j < line->given_count; j++) {
            const struct amb_cli_option *other = line->given[j].option;
            char other_shown[AMB_CLI_NAME_MAX];
            if (amb_cli_list_has(option->excludes, key_of(other, letter))) {
                return amb_cli_walk_fail(
                    walk, amb_cli_given_shown(option, line->given[i].is_letter, shown),
                    "does not go with %s",
                    amb_cli_given_shown(other, line->given[j].is_letter, other_shown));
            }
        }
        if (option->needs != NULL && !is_given(line, option->needs)) {
            return amb_cli_walk_fail(walk,
                                     amb_cli_given_shown(option, line->given[i].is_letter, shown),
                                     "goes only with --%s", option->needs);
        }
        if (option->most > 0 && amb_cli_times(line, key_of(option, letter)) > option->most) {
            return amb_cli_walk_fail(walk,
                                     amb_cli_given_shown(option, line->given[i].is_letter, shown),
                                     "at most %u times", option->most);
        }
    }
    return AMB_OK;
}

static enum amb_status check_word(struct amb_cli_walk *walk, const struct amb_cli_arg *arg,
                                  const char *text)
{
    if (amb_cli_word_named(arg->words, text) != NULL) {
        return AMB_OK;
    }
    char allowed[ALLOWED_MAX], shown[VALUE_SHOWN_MAX], what[VALUE_SHOWN_MAX + 2];
    (void)snprintf(what, sizeof(what), "'%s'", amb_text_show(text, shown, sizeof(shown)));
    return amb_cli_walk_fail(walk, what, "%s takes %s", arg->name,
                             amb_cli_words_instead(arg->words, text, allowed, sizeof(allowed)));
}

static enum amb_status check_arguments(struct amb_cli_walk *walk)
{
    const struct amb_cli_line *line = walk->line;
    const struct amb_cli_arg *arg = line->command->args;
    char shown[VALUE_SHOWN_MAX], args[ALLOWED_MAX];
    size_t at = 0;
    for (; arg != NULL && arg->name != NULL; arg++) {
        if (at == line->arg_count) {
            if (arg->is_optional) {
                return AMB_OK;
            }
            return amb_cli_walk_fail(walk, arg->name, "is missing (%s %s %s)", line->program->name,
                                     line->called,
                                     amb_cli_args_shown(line->command, args, sizeof(args)));
        }
        do {
            enum amb_status status =
                arg->words == NULL ? AMB_OK : check_word(walk, arg, line->args[at]);
            if (status != AMB_OK) {
                return status;
            }
            at++;
        } while (arg->is_many && at < line->arg_count);
    }
    if (at == line->arg_count) {
        return AMB_OK;
    }
    (void)amb_text_show(line->args[at], shown, sizeof(shown));
    if (at == 0) {
        return amb_cli_walk_fail(walk, shown, "takes no arguments");
    }
    return amb_cli_walk_fail(walk, shown, "one argument too many (%s %s %s)", line->program->name,
                             line->called, amb_cli_args_shown(line->command, args, sizeof(args)));
}

/* The command where none was named by two words. */
static enum amb_status settle_command(struct amb_cli_walk *walk)
{
    struct amb_cli_line *line = walk->line;
    const struct amb_cli_program *program = line->program;
    if (program->commands == NULL || line->command != NULL) {
        return AMB_OK;
    }
    if (walk->noun[0] == '\0') {
        return amb_cli_walk_fail(walk, "command line",
                                 "a command is missing (%s --help lists them)", program->name);
    }
    (void)snprintf(line->called, sizeof(line->called), "%s", walk->noun);
    line->command = amb_cli_command_named(program, walk->noun);
    return line->command != NULL ? AMB_OK : amb_cli_refuse_verb(walk, "");
}

static enum amb_status finish(struct amb_cli_walk *walk)
{
    struct amb_cli_line *line = walk->line;
    line->wants_help = is_given(line, "help");
    line->wants_version = is_given(line, "version");
    if (line->wants_help || line->wants_version) {
        if (line->command == NULL) {
            (void)snprintf(line->called, sizeof(line->called), "%s", walk->noun);
        }
        return AMB_OK;
    }
    enum amb_status status = settle_command(walk);
    if (status == AMB_OK && walk->pending != NULL) {
        char shown[AMB_CLI_NAME_MAX], allowed[ALLOWED_MAX];
        return amb_cli_walk_fail(walk, amb_cli_given_shown(walk->pending, walk->is_letter, shown),
                                 "needs a value (%s)",
                                 amb_cli_allowed(walk->pending, allowed, sizeof(allowed)));
    }
    if (status == AMB_OK) {
        status = take_values(walk);
    }
    if (status == AMB_OK) {
        status = check_together(walk);
    }
    if (status == AMB_OK && line->command != NULL) {
        status = check_arguments(walk);
    }
    return status;
}

enum amb_status amb_cli_parse(const struct amb_cli_program *program, int argc, char **argv,
                              struct amb_cli_line *out, char *error, size_t error_size)
{
    struct amb_cli_line line = {.program = program};
    struct amb_cli_walk walk;
    char text[AMB_CLI_ERROR_MAX] = "";
    size_t count = argc > 0 ? (size_t)argc : 0;
    enum amb_status status = amb_cli_walk_begin(&walk, &line, count, text);
    for (size_t i = 1; status == AMB_OK && i < count; i++) {
        status = amb_cli_walk_word(&walk, argv[i]);
    }
    if (status == AMB_OK) {
        status = finish(&walk);
    }
    if (status == AMB_OK) {
        *out = line;
    } else {
        (void)snprintf(error, error_size, "%s", text);
        amb_cli_fini(&line);
    }
    return status;
}

void amb_cli_fini(struct amb_cli_line *line)
{
    free(line->given);
    free(line->args);
    line->given = NULL;
    line->args = NULL;
    line->given_count = line->arg_count = 0;
}

/* ---- a parsed line ---- */

static const struct amb_cli_option *row_named(const struct amb_cli_line *line, const char *name)
{
    const struct amb_cli_option *row = amb_cli_option_find(line->program, line->command, name);
    amb_assert(row != NULL);
    return row;
}

size_t amb_cli_times(const struct amb_cli_line *line, const char *name)
{
    const struct amb_cli_option *row = row_named(line, name);
    size_t times = 0;
    for (size_t i = 0; i < line->given_count; i++) {
        times += line->given[i].option == row;
    }
    return times;
}

bool amb_cli_has(const struct amb_cli_line *line, const char *name)
{
    return amb_cli_times(line, name) > 0;
}

const struct amb_cli_value *amb_cli_value_of(const struct amb_cli_line *line, const char *name)
{
    const struct amb_cli_option *row = row_named(line, name);
    for (size_t i = line->given_count; i > 0; i--) {
        if (line->given[i - 1].option == row) {
            return &line->given[i - 1].value;
        }
    }
    return NULL;
}

const char *amb_cli_text(const struct amb_cli_line *line, const char *name)
{
    const struct amb_cli_value *value = amb_cli_value_of(line, name);
    return value != NULL ? value->text : NULL;
}

uint64_t amb_cli_number(const struct amb_cli_line *line, const char *name, uint64_t otherwise)
{
    const struct amb_cli_value *value = amb_cli_value_of(line, name);
    return value != NULL ? value->number : otherwise;
}

int64_t amb_cli_ns(const struct amb_cli_line *line, const char *name, int64_t otherwise)
{
    const struct amb_cli_value *value = amb_cli_value_of(line, name);
    return value != NULL ? value->ns : otherwise;
}

double amb_cli_rate(const struct amb_cli_line *line, const char *name, double otherwise)
{
    const struct amb_cli_value *value = amb_cli_value_of(line, name);
    return value != NULL ? value->rate : otherwise;
}

int64_t amb_cli_word(const struct amb_cli_line *line, const char *name, int64_t otherwise)
{
    const struct amb_cli_value *value = amb_cli_value_of(line, name);
    return value != NULL ? value->word : otherwise;
}

const char *amb_cli_next(const struct amb_cli_line *line, const char *name, size_t *at)
{
    const struct amb_cli_option *row = row_named(line, name);
    while (*at < line->given_count) {
        const struct amb_cli_given *given = &line->given[(*at)++];
        if (given->option == row) {
            return given->value.text;
        }
    }
    return NULL;
}
