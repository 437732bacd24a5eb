/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/page.h"

#include "tools/cli/help.h"
#include "tools/cli/walk.h"
#include "wire/config/config_reference.h"

#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 256u

static void put_option(const struct amb_cli_option *option, FILE *out)
{
    char shown[AMB_CLI_NAME_MAX], body[AMB_CLI_BODY_MAX];
    const char *value = option->value != NULL ? option->value : "";
    (void)fprintf(out, "| `%s%s%s`", amb_cli_option_shown(option, shown),
                  value[0] != '\0' ? " " : "", value);
    if (option->name != NULL && option->letter != 0) {
        (void)fprintf(out, ", `-%c`", option->letter);
    }
    (void)fputs(" | ", out);
    amb_config_cell_print(amb_cli_option_body(option, body), out);
    if (option->see != NULL) {
        (void)fprintf(out, " ([more](%s))", option->see);
    }
    (void)fputs(" |\n", out);
}

static void put_options(const struct amb_cli_option *options, FILE *out)
{
    bool has_heading = options->heading != NULL;
    (void)fputs(has_heading ? "" : "| option | meaning |\n|---|---|\n", out);
    for (const struct amb_cli_option *o = options; amb_cli_is_option(o); o++) {
        if (o->heading != NULL) {
            (void)fprintf(out, "%s| %s | meaning |\n|---|---|\n", o == options ? "" : "\n",
                          o->heading);
        }
        put_option(o, out);
    }
}

static void put_commands(const struct amb_cli_program *program, FILE *out)
{
    char name[AMB_CLI_NAME_MAX], args[LABEL_MAX];
    (void)fputs("| command | does | also |\n|---|---|---|\n", out);
    for (const struct amb_cli_command *c = program->commands; c != NULL && c->name != NULL; c++) {
        (void)amb_cli_args_shown(c, args, sizeof(args));
        (void)amb_cli_plain_name(c, name);
        (void)fprintf(out, "| `%s%s%s` | ", name, args[0] != '\0' ? " " : "", args);
        amb_config_cell_print(c->help, out);
        (void)fputs(" |", out);
        const char *before = " ";
        for (const char *const *alias = c->aliases; alias != NULL && *alias != NULL; alias++) {
            const char *other = strcmp(*alias, name) == 0 ? c->name : *alias;
            (void)fprintf(out, "%s`%s`", before, other);
            before = ", ";
        }
        (void)fputs(" |\n", out);
    }
}

static void put_exits(const struct amb_cli_program *program, FILE *out)
{
    (void)fputs("| code | meaning |\n|---|---|\n", out);
    for (const struct amb_cli_exit *row = program->exits; row->help != NULL; row++) {
        (void)fprintf(out, "| %u | ", row->code);
        amb_config_cell_print(row->help, out);
        (void)fputs(" |\n", out);
    }
}

const struct amb_cli_program *amb_cli_program_named(amb_cli_programs programs, const char *name)
{
    for (; *programs != NULL; programs++) {
        if (strcmp((*programs)->name, name) == 0) {
            return *programs;
        }
    }
    return NULL;
}

/* The table that a mark names: "broker-ctl pub". */
static bool put_block(amb_cli_programs programs, const char *mark, FILE *out)
{
    const char *rest;
    char name[AMB_CLI_NAME_MAX];
    amb_cli_name_split(mark, name, &rest);
    const struct amb_cli_program *program = amb_cli_program_named(programs, name);
    if (program == NULL) {
        return false;
    }
    if (rest[0] == '\0') {
        put_options(program->options, out);
    } else if (strcmp(rest, "commands") == 0) {
        put_commands(program, out);
    } else if (strcmp(rest, "exits") == 0) {
        put_exits(program, out);
    } else {
        const struct amb_cli_command *command = amb_cli_command_named(program, rest);
        if (command == NULL || command->options == NULL) {
            return false;
        }
        put_options(command->options, out);
    }
    return true;
}

bool amb_cli_page_print(amb_cli_programs programs, FILE *page, FILE *out, char *why, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    bool is_good = true, is_inside = false;
    while (is_good && getline(&line, &room, page) >= 0) {
        bool is_mark = strncmp(line, AMB_CLI_MARK, strlen(AMB_CLI_MARK)) == 0;
        if (is_mark || !is_inside) {
            (void)fputs(line, out);
        }
        if (!is_mark) {
            continue;
        }
        char *mark = line + strlen(AMB_CLI_MARK);
        char *end = strstr(mark, " -->");
        if (end != NULL) {
            *end = '\0';
        }
        is_inside = strcmp(mark, "end") != 0;
        if (is_inside && (end == NULL || !put_block(programs, mark, out))) {
            (void)snprintf(why, size, "%s%.80s: names no command with options", AMB_CLI_MARK, mark);
            is_good = false;
        }
    }
    free(line);
    return is_good;
}
