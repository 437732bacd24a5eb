/* SPDX-License-Identifier: Apache-2.0 */
/* Prints files of docs/, etc/ and tests/ that come from the tables of the command lines. */
#include "tools/cli/help.h"
#include "tools/cli/man.h"
#include "tools/cli/page.h"
#include "tools/cli/shells.h"
#include "tools/cli/tables.h"

#include <string.h>

static const struct amb_cli_program *const programs[] = {
    &amb_cli_broker_ctl,
    &amb_cli_broker_bench,
    &amb_cli_brokerd,
    NULL,
};

/* Of the program and of each of its commands. */
static void print_help(const struct amb_cli_program *program)
{
    amb_cli_help_program(program, stdout);
    for (const struct amb_cli_command *c = program->commands; c != NULL && c->name != NULL; c++) {
        (void)printf("\n---- %s ----\n", c->name);
        amb_cli_help_command(program, c, stdout);
    }
}

static bool print_page(const char *path)
{
    char why[200] = "cannot be read";
    FILE *page = fopen(path, "re");
    bool is_good = page != NULL && amb_cli_page_print(programs, page, stdout, why, sizeof(why));
    if (page != NULL) {
        (void)fclose(page);
    }
    if (!is_good) {
        (void)fprintf(stderr, "broker-cli-docs: %s: %s\n", path, why);
    }
    return is_good;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    const struct amb_cli_program *program =
        argc > 2 ? amb_cli_program_named(programs, argv[2]) : NULL;
    bool is_good = true;
    if (strcmp(what, "page") == 0 && argc == 3) {
        is_good = print_page(argv[2]);
    } else if (strcmp(what, "help") == 0 && program != NULL) {
        print_help(program);
    } else if (strcmp(what, "man") == 0 && program != NULL) {
        amb_cli_man_print(program, stdout);
    } else if (strcmp(what, "completion") == 0 && program != NULL && argc == 4) {
        is_good = amb_cli_shell_print(program, argv[3], stdout);
    } else {
        (void)fprintf(stderr, "usage: broker-cli-docs page FILE | help PROGRAM | man PROGRAM | "
                              "completion PROGRAM SHELL\n");
        return 64;
    }
    return fflush(stdout) == 0 && is_good ? 0 : 1;
}
