/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/man.h"

#include "tools/cli/help.h"
#include "wire/config/config_mdoc.h"

#include <ctype.h>
#include <string.h>

static void put_capital(const char *text, FILE *out)
{
    (void)fputc(toupper((unsigned char)text[0]), out);
    amb_mdoc_put(text + 1, out);
}

/* A sentence whose first letter is small in the table. */
static void put_help(const char *text, FILE *out)
{
    char body[AMB_CLI_BODY_MAX];
    (void)snprintf(body, sizeof(body), "%s", text);
    body[0] = (char)toupper((unsigned char)body[0]);
    amb_mdoc_sentences(body, out);
}

static void put_option(const struct amb_cli_option *option, FILE *out)
{
    char body[AMB_CLI_BODY_MAX];
    (void)fputs(".It", out);
    if (option->letter != 0) {
        (void)fprintf(out, " Fl %c", option->letter);
    }
    if (option->name != NULL) {
        (void)fprintf(out, "%s Fl \\-", option->letter != 0 ? " ," : "");
        amb_mdoc_put(option->name, out);
    }
    if (option->value != NULL) {
        (void)fputs(" Ar ", out);
        amb_mdoc_put(option->value, out);
    }
    (void)fputc('\n', out);
    put_help(amb_cli_option_body(option, body), out);
}

static void put_options(const struct amb_cli_option *options, FILE *out)
{
    (void)fputs(".Bl -tag -width Ds\n", out);
    for (; amb_cli_is_option(options); options++) {
        put_option(options, out);
    }
    (void)fputs(".El\n", out);
}

static void put_args(const struct amb_cli_command *command, FILE *out)
{
    const struct amb_cli_arg *arg = command->args;
    if (command->stops && !arg->is_optional) {
        (void)fputs(" Fl \\-", out);
    }
    for (; arg != NULL && arg->name != NULL; arg++) {
        (void)fputs(arg->is_optional ? " Op Ar " : " Ar ", out);
        amb_mdoc_put(arg->name, out);
        (void)fputs(arg->is_many ? " ..." : "", out);
    }
}

static void put_command(const struct amb_cli_command *command, FILE *out)
{
    char name[AMB_CLI_NAME_MAX];
    (void)fputs(".It Ic ", out);
    amb_mdoc_put(amb_cli_plain_name(command, name), out);
    put_args(command, out);
    (void)fputc('\n', out);
    put_help(command->help, out);
    if (command->more != NULL) {
        amb_mdoc_sentences(command->more, out);
    }
    for (const char *const *alias = command->aliases; alias != NULL && *alias != NULL; alias++) {
        if (strcmp(*alias, name) != 0) {
            (void)fputs("The same as\n.Ic ", out);
            amb_mdoc_put(*alias, out);
            (void)fputs(" .\n", out);
        }
    }
    for (const struct amb_cli_arg *arg = command->args; arg != NULL && arg->name != NULL; arg++) {
        (void)fputs(".Ar ", out);
        amb_mdoc_put(arg->name, out);
        (void)fputs(" :\n", out);
        amb_mdoc_sentences(arg->help, out);
    }
    if (command->options != NULL) {
        put_options(command->options, out);
    }
}

static void put_commands(const struct amb_cli_program *program, FILE *out)
{
    const struct amb_cli_command *command = program->commands;
    for (; command->name != NULL; command++) {
        if (command->heading != NULL || command == program->commands) {
            (void)fputs(command == program->commands ? ".Ss " : ".El\n.Ss ", out);
            put_capital(command->heading != NULL ? command->heading : "commands", out);
            (void)fputs("\n.Bl -tag -width Ds\n", out);
        }
        put_command(command, out);
    }
    (void)fputs(".El\n", out);
}

static void put_synopsis(const struct amb_cli_program *program, FILE *out)
{
    (void)fputs(".Sh SYNOPSIS\n.Nm\n", out);
    if (program->commands != NULL) {
        (void)fputs(".Op Ar option ...\n.Ar command\n.Op Ar argument ...\n", out);
        return;
    }
    for (const struct amb_cli_option *o = program->options; amb_cli_is_option(o); o++) {
        (void)fputs(".Op Fl ", out);
        if (o->letter != 0) {
            (void)fputc(o->letter, out);
        } else {
            (void)fputs("\\-", out);
            amb_mdoc_put(o->name, out);
        }
        (void)fputs(o->value != NULL ? " Ar " : "", out);
        amb_mdoc_put(o->value != NULL ? o->value : "", out);
        (void)fputc('\n', out);
    }
}

static void put_examples(const struct amb_cli_program *program, FILE *out)
{
    if (program->commands == NULL) {
        return;
    }
    (void)fputs(".Sh EXAMPLES\n", out);
    for (const struct amb_cli_command *c = program->commands; c->name != NULL; c++) {
        if (c->example != NULL) {
            (void)fputs(".Dl ", out);
            amb_mdoc_put(c->example, out);
            (void)fputc('\n', out);
        }
    }
}

/* "brokerd 8, broker.conf 5" */
static void put_see_also(const char *list, FILE *out)
{
    (void)fputs(".Sh SEE ALSO\n", out);
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        bool is_last = list[len] == '\0';
        (void)fprintf(out, ".Xr %.*s%s\n", (int)len, list, is_last ? "" : " ,");
        list += len;
        list += strspn(list, ", ");
    }
}

static void put_title(const struct amb_cli_program *program, FILE *out)
{
    (void)fprintf(out,
                  ".\\\" SPDX-License-Identifier: Apache-2.0\n"
                  ".\\\" Made from the table of %s in tools/cli; edit that, not this page.\n"
                  ".Dd " AMB_MDOC_DATE "\n.Dt ",
                  program->name);
    for (const char *at = program->name; *at != '\0'; at++) {
        (void)fputc(toupper((unsigned char)*at), out);
    }
    (void)fprintf(out, " %u\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n", program->section, program->name,
                  program->help);
}

void amb_cli_man_print(const struct amb_cli_program *program, FILE *out)
{
    put_title(program, out);
    put_synopsis(program, out);
    (void)fputs(".Sh DESCRIPTION\n", out);
    if (program->more != NULL) {
        amb_mdoc_sentences(program->more, out);
    } else {
        (void)fputs(".Nm\n", out);
        amb_mdoc_sentences(program->help, out);
    }
    if (program->commands != NULL) {
        (void)fputs("Options may stand before or behind the command.\n", out);
        put_commands(program, out);
    }
    (void)fputs(program->commands != NULL ? ".Ss Options of all commands\n" : ".Ss Options\n", out);
    put_options(program->options, out);
    (void)fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n", out);
    for (const struct amb_cli_variable *v = program->variables; v->name != NULL; v++) {
        (void)fprintf(out, ".It Ev %s\n", v->name);
        put_help(v->help, out);
    }
    (void)fputs(".El\n.Sh EXIT STATUS\n.Bl -tag -width Ds\n", out);
    for (const struct amb_cli_exit *row = program->exits; row->help != NULL; row++) {
        (void)fprintf(out, ".It %u\n", row->code);
        put_help(row->help, out);
    }
    (void)fputs(".El\n", out);
    put_examples(program, out);
    put_see_also(program->see_also, out);
}
