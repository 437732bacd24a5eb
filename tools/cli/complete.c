/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/complete.h"

#include "tools/cli/walk.h"
#include "wire/base/text.h"

#include <string.h>

/* Everything that one question needs. */
struct asking {
    struct amb_cli_walk walk;
    struct amb_cli_candidates to;
    amb_cli_live_fn live;
};

void amb_cli_candidate(struct amb_cli_candidates *to, const char *text, const char *help)
{
    if (text[0] != '\0' && strncmp(text, to->start, strlen(to->start)) == 0 &&
        !amb_text_has_control(text, strlen(text))) {
        (void)fprintf(to->out, "%s%s\t%s\n", to->lead, text, help);
    }
}

static void ask_broker(struct asking *asking, enum amb_cli_live kind)
{
    (void)fflush(asking->to.out); /* The broker may not answer in time. */
    if (asking->live != NULL) {
        asking->live(kind, asking->walk.line, &asking->to);
    }
}

static void add_words(struct asking *asking, const struct amb_config_word *words)
{
    for (; words != NULL && words->word != NULL; words++) {
        if (!words->not_yet) {
            amb_cli_candidate(&asking->to, words->word, "");
        }
    }
}

/* ---- names of commands ---- */

/* Is it the first name with this noun? Each noun is listed once. */
static bool is_first_of(const struct amb_cli_program *program, const char *noun, const char *name)
{
    struct amb_cli_names others = {.program = program};
    while (amb_cli_names_next(&others)) {
        if (strcmp(others.noun, noun) == 0) {
            return others.name == name;
        }
    }
    return false;
}

static void add_nouns(struct asking *asking)
{
    struct amb_cli_names names = {.program = asking->walk.line->program};
    while (amb_cli_names_next(&names)) {
        if (is_first_of(names.program, names.noun, names.name)) {
            const struct amb_cli_command *alone = amb_cli_command_named(names.program, names.noun);
            amb_cli_candidate(&asking->to, names.noun, alone != NULL ? alone->help : "");
        }
    }
}

static void add_verbs(struct asking *asking, const char *wanted)
{
    struct amb_cli_names names = {.program = asking->walk.line->program};
    while (amb_cli_names_next(&names)) {
        if (strcmp(names.noun, wanted) == 0 && names.verb[0] != '\0') {
            amb_cli_candidate(&asking->to, names.verb, names.command->help);
        }
    }
}

/* ---- values and arguments ---- */

static void add_values(struct asking *asking, const struct amb_cli_option *option)
{
    add_words(asking, option->words);
    if (option->type == AMB_CLI_FILE) {
        (void)fprintf(asking->to.out, "%s\n", AMB_CLI_FILES);
    } else if (option->type == AMB_CLI_FOLDER) {
        (void)fprintf(asking->to.out, "%s\n", AMB_CLI_FOLDERS);
    } else if (option->live != AMB_CLI_LIVE_NONE) {
        ask_broker(asking, option->live);
    }
}

static void add_commands(struct asking *asking)
{
    const struct amb_cli_line *line = asking->walk.line;
    if (line->arg_count == 0) {
        add_nouns(asking);
    } else if (line->arg_count == 1) {
        add_verbs(asking, line->args[0]);
    }
}

static void add_arguments(struct asking *asking, const struct amb_cli_command *command)
{
    const struct amb_cli_arg *arg = command->args;
    size_t count = asking->walk.line->arg_count;
    for (; arg != NULL && arg->name != NULL && count > 0 && !arg->is_many; count--) {
        arg++;
    }
    if (arg == NULL || arg->name == NULL) {
        return;
    }
    add_words(asking, arg->words);
    if (arg->type == AMB_CLI_FILE || (command->stops && !arg->is_optional)) {
        (void)fprintf(asking->to.out, "%s\n", AMB_CLI_FILES);
    } else if (arg->live == AMB_CLI_LIVE_COMMANDS) {
        add_commands(asking);
    } else if (arg->live != AMB_CLI_LIVE_NONE) {
        ask_broker(asking, arg->live);
    }
}

/* ---- options ---- */

static bool is_still_wanted(const struct amb_cli_line *line, const struct amb_cli_option *option)
{
    bool is_given = false;
    for (size_t i = 0; i < line->given_count; i++) {
        const struct amb_cli_option *given = line->given[i].option;
        is_given = is_given || given == option;
        bool is_excluded =
            (option->name != NULL && amb_cli_list_has(given->excludes, option->name)) ||
            (given->name != NULL && amb_cli_list_has(option->excludes, given->name));
        if (is_excluded) {
            return false;
        }
    }
    return !is_given || option->most > 1;
}

static void add_options_of(struct asking *asking, const struct amb_cli_option *options,
                           const struct amb_cli_command *command)
{
    char shown[AMB_CLI_NAME_MAX];
    for (; options != NULL && amb_cli_is_option(options); options++) {
        if (amb_cli_takes(command, options) && is_still_wanted(asking->walk.line, options)) {
            amb_cli_candidate(&asking->to, amb_cli_option_shown(options, shown), options->help);
        }
    }
}

static void add_options(struct asking *asking)
{
    const struct amb_cli_command *command = amb_cli_walk_command(&asking->walk);
    if (command != NULL) {
        add_options_of(asking, command->options, NULL);
    }
    add_options_of(asking, asking->walk.line->program->options, command);
}

/* "--policy=la": the value of an option in one word. False: it is none. */
static bool add_joined(struct asking *asking, const char *word)
{
    char lead[AMB_CLI_NAME_MAX + 4], name[AMB_CLI_NAME_MAX];
    size_t len = strcspn(word, "=");
    if (strncmp(word, "--", 2) != 0 || word[len] != '=' || len >= AMB_CLI_NAME_MAX) {
        return false;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)len - 2, word + 2);
    const struct amb_cli_line *line = asking->walk.line;
    const struct amb_cli_option *option = amb_cli_option_find(line->program, line->command, name);
    if (option != NULL) {
        (void)snprintf(lead, sizeof(lead), "%.*s", (int)len + 1, word);
        asking->to.lead = lead;
        asking->to.start = word + len + 1;
        add_values(asking, option);
    }
    return true;
}

/* ---- the word under the cursor ---- */

static void add(struct asking *asking, const char *word)
{
    const struct amb_cli_walk *walk = &asking->walk;
    const struct amb_cli_line *line = walk->line;
    if (walk->pending != NULL) {
        add_values(asking, walk->pending);
    } else if (!walk->has_ended && word[0] == '-') {
        if (!add_joined(asking, word)) {
            add_options(asking);
        }
    } else if (line->command != NULL) {
        add_arguments(asking, line->command);
    } else if (walk->noun[0] == '\0') {
        add_nouns(asking);
    } else {
        const struct amb_cli_command *alone = amb_cli_walk_command(walk);
        if (!walk->has_ended) {
            add_verbs(asking, walk->noun);
        }
        if (alone != NULL) {
            add_arguments(asking, alone);
        }
    }
}

void amb_cli_complete(const struct amb_cli_program *program, int count, char **words,
                      amb_cli_live_fn live, FILE *out)
{
    char error[AMB_CLI_ERROR_MAX];
    struct amb_cli_line line = {.program = program};
    struct asking asking = {.to = {.lead = "", .start = "", .out = out}, .live = live};
    size_t before = count > 0 ? (size_t)count - 1 : 0;
    if (amb_cli_walk_begin(&asking.walk, &line, before, error) != AMB_OK) {
        return;
    }
    for (size_t i = 0; i < before; i++) {
        /* A word that is wrong is the parser's to tell. */
        enum amb_status status = amb_cli_walk_word(&asking.walk, words[i]);
        (void)status;
    }
    asking.to.start = count > 0 ? words[before] : "";
    add(&asking, asking.to.start);
    (void)fflush(out);
    amb_cli_fini(&line);
}
