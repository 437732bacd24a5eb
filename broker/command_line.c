/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/command_line.h"

#include "tools/cli/complete.h"
#include "tools/cli/help.h"
#include "tools/cli/tables.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

void amb_command_line_help(FILE *out)
{
    amb_cli_help_program(&amb_cli_brokerd, out);
}

bool amb_command_line_complete(int argc, char **argv, FILE *out)
{
    bool is_asked = argc > 1 && strcmp(argv[1], AMB_CLI_COMPLETE) == 0;
    if (is_asked) {
        amb_cli_complete(&amb_cli_brokerd, argc - 2, argv + 2, NULL, out);
    }
    return is_asked;
}

/* The last one holds. */
static enum amb_command_line_action find_action(const struct amb_cli_line *given)
{
    enum amb_command_line_action action = AMB_COMMAND_LINE_RUN;
    if (given->wants_help) {
        return AMB_COMMAND_LINE_HELP;
    }
    if (given->wants_version) {
        return AMB_COMMAND_LINE_VERSION;
    }
    for (size_t i = 0; i < given->given_count; i++) {
        if (strcmp(given->given[i].option->name, "test-config") == 0) {
            action = AMB_COMMAND_LINE_TEST_CONFIG;
        } else if (strcmp(given->given[i].option->name, "print-config") == 0) {
            action = AMB_COMMAND_LINE_PRINT_CONFIG;
        } else if (strcmp(given->given[i].option->name, "doctor") == 0) {
            action = AMB_COMMAND_LINE_DOCTOR;
        }
    }
    return action;
}

/* The texts of an option that may be repeated. ENOMEM. */
static enum amb_status copy_list(const struct amb_cli_line *given, const char *name,
                                 const char ***out, size_t *count)
{
    size_t at = 0;
    const char *text;
    *out = calloc(amb_cli_times(given, name) + 1, sizeof(char *));
    while (*out != NULL && (text = amb_cli_next(given, name, &at)) != NULL) {
        (*out)[(*count)++] = text;
    }
    return *out != NULL ? AMB_OK : AMB_ENOMEM;
}

static enum amb_status take(struct amb_command_line *line, const struct amb_cli_line *given,
                            char *error, size_t error_size)
{
    line->action = find_action(given);
    line->config = amb_cli_text(given, "config");
    line->dev = amb_cli_has(given, "dev");
    line->output = (int)amb_cli_word(given, "output", AMB_CLI_FORM_TABLE);
    line->until_eof = amb_cli_has(given, "until-eof");
    enum amb_status status = copy_list(given, "listen", &line->listen, &line->listen_count);
    if (status == AMB_OK) {
        status = copy_list(given, "option", &line->settings, &line->setting_count);
    }
    if (status != AMB_OK) {
        (void)snprintf(error, error_size, "command line: no memory");
        amb_command_line_fini(line);
    }
    return status;
}

enum amb_status amb_command_line_init(struct amb_command_line *line, int argc, char **argv,
                                      char *error, size_t error_size)
{
    amb_assert(argc >= 0 && error_size > 0);
    memset(line, 0, sizeof(*line));
    struct amb_cli_line given;
    enum amb_status status = amb_cli_parse(&amb_cli_brokerd, argc, argv, &given, error, error_size);
    if (status == AMB_OK) {
        status = take(line, &given, error, error_size);
        amb_cli_fini(&given);
    }
    if (status != AMB_OK) {
        return status;
    }
    if (line->config == NULL && !line->dev) {
        const char *both_roles = secure_getenv("AMB_CONFIG");
        bool is_named = both_roles != NULL && both_roles[0] != '\0';
        line->config = is_named ? both_roles : AMB_COMMAND_LINE_CONFIG_DEFAULT;
    }
    return AMB_OK;
}

void amb_command_line_fini(struct amb_command_line *line)
{
    free(line->listen);
    free(line->settings);
    memset(line, 0, sizeof(*line));
}
