/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/help.h"

#include "tools/cli/value.h"
#include "tools/cli/walk.h"

#include <string.h>

#define WIDTH 80
#define TEXT_COLUMN 26 /* where explanations begin */
#define LABEL_MAX 128u
#define LINE_MAX 1024u

/* Words from `column` on, in lines that begin at `indent`. */
static void wrap(const char *text, int column, int indent, FILE *out)
{
    int at = column;
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        bool is_first = at == indent;
        if (!is_first && at + 1 + len > WIDTH) {
            (void)fprintf(out, "\n%*s", indent, "");
            at = indent;
            is_first = true;
        }
        (void)fprintf(out, "%s%.*s", is_first ? "" : " ", len, text);
        at += len + !is_first;
        text += len;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

/* A label, and its explanation beside it, or below where the label is long. */
static void explain(const char *label, const char *text, FILE *out)
{
    int len = fprintf(out, "  %s", label);
    if (len + 2 > TEXT_COLUMN) {
        (void)fprintf(out, "\n%*s", TEXT_COLUMN, "");
    } else {
        (void)fprintf(out, "%*s", TEXT_COLUMN - len, "");
    }
    wrap(text, TEXT_COLUMN, TEXT_COLUMN, out);
}

const char *amb_cli_plain_name(const struct amb_cli_command *command, char *out)
{
    const char *verb;
    char noun[AMB_CLI_NAME_MAX];
    amb_cli_name_split(command->name, noun, &verb);
    (void)snprintf(out, AMB_CLI_NAME_MAX, "%s", strcmp(verb, "ls") == 0 ? noun : command->name);
    return out;
}

const char *amb_cli_option_body(const struct amb_cli_option *option, char *out)
{
    char words[AMB_CLI_BODY_MAX / 4] = "";
    if (option->type == AMB_CLI_WORD) {
        (void)amb_cli_words_shown(option->words, words, sizeof(words));
    }
    bool has_words = words[0] != '\0';
    bool has_default = option->default_text != NULL;
    (void)snprintf(out, AMB_CLI_BODY_MAX, "%s%s%s%s%s%s", option->help,
                   has_words ? ". One of " : "", words, has_default ? " (default: " : "",
                   has_default ? option->default_text : "", has_default ? ")" : "");
    return out;
}

const char *amb_cli_synopsis(const struct amb_cli_program *program,
                             const struct amb_cli_command *command, char *out, size_t size)
{
    char name[AMB_CLI_NAME_MAX], args[LINE_MAX];
    if (command == NULL) {
        (void)snprintf(out, size, "%s %s", program->name,
                       program->usage != NULL ? program->usage
                                              : "[OPTION]... COMMAND [ARGUMENT]...");
        return out;
    }
    (void)amb_cli_args_shown(command, args, sizeof(args));
    bool has_dashes = command->stops && !command->args[0].is_optional;
    (void)snprintf(out, size, "%s [OPTION]... %s%s%s%s%s", program->name,
                   amb_cli_plain_name(command, name),
                   command->stops && command->options != NULL ? " [OPTION]..." : "",
                   has_dashes ? " --" : "", args[0] != '\0' ? " " : "", args);
    return out;
}

static void print_option(const struct amb_cli_option *option, FILE *out)
{
    char label[LABEL_MAX], body[AMB_CLI_BODY_MAX];
    const char *blank = option->value != NULL ? " " : "";
    const char *value = option->value != NULL ? option->value : "";
    if (option->name == NULL) {
        (void)snprintf(label, sizeof(label), "-%c%s%s", option->letter, blank, value);
    } else if (option->letter != 0) {
        (void)snprintf(label, sizeof(label), "-%c, --%s%s%s", option->letter, option->name, blank,
                       value);
    } else {
        (void)snprintf(label, sizeof(label), "    --%s%s%s", option->name, blank, value);
    }
    explain(label, amb_cli_option_body(option, body), out);
}

static void print_options(const char *heading, const struct amb_cli_option *options, FILE *out)
{
    bool is_begun = false;
    for (; options != NULL && amb_cli_is_option(options); options++) {
        if (options->heading != NULL || !is_begun) {
            (void)fprintf(out, "\n%s:\n", options->heading != NULL ? options->heading : heading);
        }
        is_begun = true;
        print_option(options, out);
    }
}

static void print_row(const struct amb_cli_command *command, FILE *out)
{
    char name[AMB_CLI_NAME_MAX], args[LINE_MAX], label[LABEL_MAX + LINE_MAX];
    (void)amb_cli_args_shown(command, args, sizeof(args));
    (void)snprintf(label, sizeof(label), "%s%s%s", amb_cli_plain_name(command, name),
                   args[0] != '\0' ? " " : "", args);
    explain(label, command->help, out);
}

static void print_exits(const struct amb_cli_program *program, FILE *out)
{
    char code[8];
    (void)fprintf(out, "\nexit codes:\n");
    for (const struct amb_cli_exit *row = program->exits; row->help != NULL; row++) {
        (void)snprintf(code, sizeof(code), "%u", row->code);
        explain(code, row->help, out);
    }
}

void amb_cli_help_program(const struct amb_cli_program *program, FILE *out)
{
    char text[LINE_MAX];
    (void)fprintf(out, "usage: %s\n", amb_cli_synopsis(program, NULL, text, sizeof(text)));
    (void)fprintf(out, "%s: %s.\n", program->name, program->help);
    if (program->more != NULL) {
        (void)fputc('\n', out);
        wrap(program->more, 0, 0, out);
    }
    const struct amb_cli_command *command = program->commands;
    for (; command != NULL && command->name != NULL; command++) {
        if (command->heading != NULL || command == program->commands) {
            (void)fprintf(out, "\n%s:\n", command->heading != NULL ? command->heading : "commands");
        }
        print_row(command, out);
    }
    bool has_commands = program->commands != NULL;
    print_options(has_commands ? "options of all commands, before or behind them" : "options",
                  program->options, out);
    print_exits(program, out);
    if (has_commands) {
        (void)fprintf(out, "\n%s COMMAND --help explains a command and all its options.\n",
                      program->name);
    }
}

/* The names alone: the program's own help explains them. */
static void print_common(const struct amb_cli_program *program,
                         const struct amb_cli_command *command, FILE *out)
{
    char text[LINE_MAX], shown[AMB_CLI_NAME_MAX];
    size_t len = (size_t)snprintf(text, sizeof(text), "As all commands it takes");
    const char *before = " ";
    for (const struct amb_cli_option *o = program->options; amb_cli_is_option(o); o++) {
        if (amb_cli_takes(command, o) && len < sizeof(text)) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", before,
                                    amb_cli_option_shown(o, shown));
            before = ", ";
        }
    }
    (void)fputc('\n', out);
    wrap(text, 0, 0, out);
    (void)fprintf(out, "(%s --help explains them).\n", program->name);
}

static void print_arguments(const struct amb_cli_command *command, FILE *out)
{
    char words[AMB_CLI_BODY_MAX / 4], text[AMB_CLI_BODY_MAX];
    if (command->args == NULL) {
        return;
    }
    (void)fprintf(out, "\narguments:\n");
    for (const struct amb_cli_arg *arg = command->args; arg->name != NULL; arg++) {
        (void)snprintf(text, sizeof(text), "%s%s%s", arg->help, arg->words != NULL ? ": " : "",
                       arg->words != NULL ? amb_cli_words_shown(arg->words, words, sizeof(words))
                                          : "");
        explain(arg->name, text, out);
    }
}

void amb_cli_help_command(const struct amb_cli_program *program,
                          const struct amb_cli_command *command, FILE *out)
{
    char text[LINE_MAX];
    (void)fprintf(out, "usage: %s\n", amb_cli_synopsis(program, command, text, sizeof(text)));
    (void)snprintf(text, sizeof(text), "%s.", command->help);
    wrap(text, 0, 0, out);
    if (command->more != NULL) {
        (void)fputc('\n', out);
        wrap(command->more, 0, 0, out);
    }
    const char *const *alias = command->aliases;
    for (; alias != NULL && *alias != NULL; alias++) {
        (void)fprintf(out, "%s%s", alias == command->aliases ? "\nalso: " : ", ", *alias);
    }
    (void)fputs(command->aliases != NULL ? "\n" : "", out);
    print_arguments(command, out);
    print_options("options", command->options, out);
    print_common(program, command, out);
    if (command->example != NULL) {
        (void)fprintf(out, "\nexample:\n  %s\n", command->example);
    }
}

void amb_cli_help_noun(const struct amb_cli_program *program, const char *noun, FILE *out)
{
    const char *verb;
    char first[AMB_CLI_NAME_MAX];
    (void)fprintf(out, "usage: %s [OPTION]... %s VERB\n\n", program->name, noun);
    const struct amb_cli_command *command = program->commands;
    for (; command != NULL && command->name != NULL; command++) {
        amb_cli_name_split(command->name, first, &verb);
        if (strcmp(first, noun) == 0) {
            print_row(command, out);
        }
    }
}

void amb_cli_help_line(const struct amb_cli_line *line, FILE *out)
{
    if (line->command != NULL) {
        amb_cli_help_command(line->program, line->command, out);
    } else if (line->called[0] != '\0') {
        amb_cli_help_noun(line->program, line->called, out);
    } else {
        amb_cli_help_program(line->program, out);
    }
}
