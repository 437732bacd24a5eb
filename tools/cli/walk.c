/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/walk.h"

#include "wire/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 100u /* bytes of a word in an error */
#define VERBS_MAX 160u

/* ---- errors ---- */

enum amb_status amb_cli_walk_fail(struct amb_cli_walk *walk, const char *what, const char *format,
                                  ...)
{
    const struct amb_cli_line *line = walk->line;
    const char *name = line->command != NULL ? line->called : walk->noun;
    const char *blank = name[0] != '\0' && what[0] != '\0' ? " " : "";
    int len = snprintf(walk->error, AMB_CLI_ERROR_MAX, "%s%s%s: ", name, blank, what);
    size_t at = len > 0 && (size_t)len < AMB_CLI_ERROR_MAX ? (size_t)len : 0;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(walk->error + at, AMB_CLI_ERROR_MAX - at, format, args);
    va_end(args);
    return AMB_EINVAL;
}

/* ---- names ---- */

void amb_cli_name_split(const char *name, char *noun, const char **verb)
{
    size_t len = strcspn(name, " ");
    (void)snprintf(noun, AMB_CLI_NAME_MAX, "%.*s", (int)len, name);
    *verb = name[len] == ' ' ? name + len + 1 : "";
}

bool amb_cli_names_next(struct amb_cli_names *names)
{
    if (names->program->commands == NULL) {
        return false;
    }
    if (names->command == NULL) {
        names->command = names->program->commands;
        names->at = 0;
    }
    const char *const *aliases = names->command->aliases;
    if (names->at > 0 && (aliases == NULL || aliases[names->at - 1] == NULL)) {
        names->command++;
        names->at = 0;
    }
    if (names->command->name == NULL) {
        return false;
    }
    names->name = names->at == 0 ? names->command->name : names->command->aliases[names->at - 1];
    names->at++;
    amb_cli_name_split(names->name, names->noun, &names->verb);
    return true;
}

bool amb_cli_noun_has_verbs(const struct amb_cli_program *program, const char *noun)
{
    struct amb_cli_names names = {.program = program};
    while (amb_cli_names_next(&names)) {
        if (strcmp(names.noun, noun) == 0 && names.verb[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* "topic" and "topics". */
static bool is_other_number(const char *word, const char *noun)
{
    size_t len = strlen(word), noun_len = strlen(noun);
    size_t least = len < noun_len ? len : noun_len;
    const char *longer = len > noun_len ? word : noun;
    return len != noun_len && strncmp(word, noun, least) == 0 && strcmp(longer + least, "s") == 0;
}

static bool find_noun(const struct amb_cli_program *program, const char *word, char *out)
{
    struct amb_cli_names names = {.program = program};
    bool is_found = false;
    while (amb_cli_names_next(&names)) {
        if (strcmp(names.noun, word) == 0) {
            memcpy(out, names.noun, sizeof(names.noun));
            return true;
        }
        if (!is_found && names.verb[0] != '\0' && is_other_number(word, names.noun)) {
            memcpy(out, names.noun, sizeof(names.noun));
            is_found = true;
        }
    }
    return is_found;
}

/* The first word of a command that was probably meant. */
static bool find_nearest(const struct amb_cli_program *program, const char *word, char *out)
{
    struct amb_cli_names names = {.program = program};
    unsigned limit = amb_cli_too_far(strlen(word));
    bool is_found = false;
    while (amb_cli_names_next(&names)) {
        unsigned distance = amb_text_distance(names.noun, word, limit);
        if (distance < limit) {
            memcpy(out, names.noun, sizeof(names.noun));
            limit = distance;
            is_found = true;
        }
    }
    return is_found;
}

static enum amb_status refuse_noun(struct amb_cli_walk *walk, const char *word)
{
    const struct amb_cli_program *program = walk->line->program;
    char shown[SHOWN_MAX], near[AMB_CLI_NAME_MAX];
    (void)amb_text_show(word, shown, sizeof(shown));
    for (const struct amb_cli_habit *h = program->habits; h != NULL && h->word != NULL; h++) {
        if (strcmp(h->word, word) == 0) {
            return amb_cli_walk_fail(walk, shown, "no command of this name: %s", h->hint);
        }
    }
    if (find_nearest(program, word, near)) {
        return amb_cli_walk_fail(walk, shown, "no command of this name (did you mean %s?)", near);
    }
    return amb_cli_walk_fail(walk, shown, "no command of this name (%s help lists them)",
                             program->name);
}

/* "ls, info", the verbs of the noun; near: the one that was probably meant with `word`, or "". */
static void list_verbs(const struct amb_cli_walk *walk, const char *word, char *out, size_t size,
                       const char **near)
{
    struct amb_cli_names names = {.program = walk->line->program};
    size_t len = 0;
    unsigned limit = amb_cli_too_far(strlen(word));
    *near = "";
    out[0] = '\0';
    while (amb_cli_names_next(&names)) {
        if (strcmp(names.noun, walk->noun) != 0 || names.verb[0] == '\0') {
            continue;
        }
        int n = snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", names.verb);
        len += n > 0 && (size_t)n < size - len ? (size_t)n : 0;
        unsigned distance = amb_text_distance(names.verb, word, limit);
        if (distance < limit) {
            limit = distance;
            *near = names.verb;
        }
    }
}

enum amb_status amb_cli_refuse_verb(struct amb_cli_walk *walk, const char *word)
{
    char shown[SHOWN_MAX], verbs[VERBS_MAX];
    const char *near;
    list_verbs(walk, word, verbs, sizeof(verbs), &near);
    if (word[0] == '\0') {
        return amb_cli_walk_fail(walk, "", "a verb is missing (there are %s)", verbs);
    }
    if (near[0] != '\0') {
        return amb_cli_walk_fail(walk, amb_text_show(word, shown, sizeof(shown)),
                                 "no such verb (did you mean %s?)", near);
    }
    return amb_cli_walk_fail(walk, amb_text_show(word, shown, sizeof(shown)),
                             "no such verb (there are %s)", verbs);
}

/* ---- arguments ---- */

static void use_command(struct amb_cli_walk *walk, const struct amb_cli_command *command,
                        const char *called)
{
    walk->line->command = command;
    (void)snprintf(walk->line->called, sizeof(walk->line->called), "%.*s",
                   (int)sizeof(walk->line->called) - 1, called);
}

static enum amb_status take_noun(struct amb_cli_walk *walk, const char *word)
{
    const struct amb_cli_program *program = walk->line->program;
    if (program->commands == NULL) {
        char shown[SHOWN_MAX];
        return amb_cli_walk_fail(walk, amb_text_show(word, shown, sizeof(shown)),
                                 "takes no arguments");
    }
    if (!find_noun(program, word, walk->noun)) {
        return refuse_noun(walk, word);
    }
    if (!amb_cli_noun_has_verbs(program, walk->noun)) {
        use_command(walk, amb_cli_command_named(program, walk->noun), walk->noun);
    }
    return AMB_OK;
}

/* False: it is none, and may be an argument. */
static bool take_verb(struct amb_cli_walk *walk, const char *word)
{
    char name[2 * AMB_CLI_NAME_MAX];
    (void)snprintf(name, sizeof(name), "%s %.*s", walk->noun, (int)AMB_CLI_NAME_MAX - 1, word);
    const struct amb_cli_command *command = amb_cli_command_named(walk->line->program, name);
    if (command != NULL) {
        use_command(walk, command, name);
    }
    return command != NULL;
}

static enum amb_status take_argument(struct amb_cli_walk *walk, char *word)
{
    struct amb_cli_line *line = walk->line;
    if (walk->noun[0] == '\0') {
        return take_noun(walk, word);
    }
    if (line->command == NULL) {
        if (!walk->has_ended && take_verb(walk, word)) {
            return AMB_OK;
        }
        const struct amb_cli_command *alone = amb_cli_command_named(line->program, walk->noun);
        if (alone == NULL || alone->args == NULL) {
            return amb_cli_refuse_verb(walk, word);
        }
        use_command(walk, alone, walk->noun);
    }
    walk->has_ended = walk->has_ended || line->command->stops;
    line->args[line->arg_count++] = word;
    return AMB_OK;
}

/* ---- options ---- */

/* A search through the options that may stand here. */
struct search {
    const char *name;
    size_t len; /* of the name, before '=' */
    const struct amb_cli_option *exact, *prefix, *other;
    const char *near;
    unsigned limit;
};

static void look_at(struct search *search, const struct amb_cli_option *options)
{
    char name[AMB_CLI_NAME_MAX];
    (void)snprintf(name, sizeof(name), "%.*s", (int)search->len, search->name);
    for (; options != NULL && amb_cli_is_option(options) && search->exact == NULL; options++) {
        if (options->name == NULL) {
            continue;
        }
        if (strcmp(options->name, name) == 0 ||
            (options->former != NULL && strcmp(options->former, name) == 0)) {
            search->exact = options;
        } else if (strncmp(options->name, name, search->len) == 0) {
            bool is_same =
                search->prefix != NULL && strcmp(search->prefix->name, options->name) == 0;
            bool is_second = search->prefix != NULL && !is_same && search->other == NULL;
            search->other = is_second ? options : search->other;
            search->prefix = search->prefix == NULL ? options : search->prefix;
        }
        unsigned distance = amb_text_distance(options->name, name, search->limit);
        if (distance < search->limit) {
            search->limit = distance;
            search->near = options->name;
        }
    }
}

/* Those of all commands with this noun, or of all commands. */
static void look_at_commands(const struct amb_cli_program *program, const char *noun,
                             struct search *search)
{
    struct amb_cli_names names = {.program = program};
    while (amb_cli_names_next(&names)) {
        if (noun[0] == '\0' || strcmp(names.noun, noun) == 0) {
            look_at(search, names.command->options);
        }
    }
}

/* The command's own options, of a noun without its verb those of all its verbs, and the program's.
 * Before a noun those of the program go before all others. */
static void look(const struct amb_cli_walk *walk, struct search *search)
{
    const struct amb_cli_line *line = walk->line;
    if (line->command != NULL) {
        look_at(search, line->command->options);
    } else if (walk->noun[0] != '\0') {
        look_at_commands(line->program, walk->noun, search);
    }
    look_at(search, line->program->options);
    if (walk->noun[0] == '\0' && search->exact == NULL && search->prefix == NULL) {
        look_at_commands(line->program, "", search);
    }
}

static enum amb_status refuse_option(struct amb_cli_walk *walk, const struct search *search,
                                     const char *word)
{
    char shown[SHOWN_MAX];
    (void)amb_text_show(word, shown, sizeof(shown));
    if (search->other != NULL) {
        return amb_cli_walk_fail(walk, shown, "may be --%s or --%s", search->prefix->name,
                                 search->other->name);
    }
    if (search->near != NULL) {
        return amb_cli_walk_fail(walk, shown, "no such option (did you mean --%s?)", search->near);
    }
    const char *name = walk->line->command != NULL ? walk->line->called : walk->noun;
    return amb_cli_walk_fail(walk, shown, "no such option (%s%s%s --help lists them)",
                             walk->line->program->name, name[0] != '\0' ? " " : "", name);
}

const char *amb_cli_given_shown(const struct amb_cli_option *option, bool is_letter, char *out)
{
    if (!is_letter) {
        return amb_cli_option_shown(option, out);
    }
    (void)snprintf(out, AMB_CLI_NAME_MAX, "-%c", option->letter);
    return out;
}

static void give(struct amb_cli_walk *walk, const struct amb_cli_option *option, const char *text)
{
    struct amb_cli_line *line = walk->line;
    line->given[line->given_count++] = (struct amb_cli_given){
        .option = option, .is_letter = walk->is_letter, .value = {.text = text}};
}

/* word: "--name" or "--name=value". */
static enum amb_status take_long(struct amb_cli_walk *walk, char *word)
{
    struct search search = {.name = word + 2, .len = strcspn(word + 2, "=")};
    search.limit = amb_cli_too_far(search.len);
    char *value = word[2 + search.len] == '=' ? word + 3 + search.len : NULL;
    if (search.len < AMB_CLI_NAME_MAX) {
        look(walk, &search);
    }
    const struct amb_cli_option *option = search.exact;
    if (option == NULL && search.other == NULL) {
        option = search.prefix;
    }
    if (option == NULL) {
        return refuse_option(walk, &search, word);
    }
    char shown[AMB_CLI_NAME_MAX];
    walk->is_letter = false;
    if (option->type == AMB_CLI_FLAG && value != NULL) {
        return amb_cli_walk_fail(walk, amb_cli_option_shown(option, shown), "takes no value");
    }
    if (option->type == AMB_CLI_FLAG || value != NULL) {
        give(walk, option, value);
    } else {
        walk->pending = option;
    }
    return AMB_OK;
}

const struct amb_cli_command *amb_cli_walk_command(const struct amb_cli_walk *walk)
{
    const struct amb_cli_line *line = walk->line;
    return line->command != NULL ? line->command : amb_cli_command_named(line->program, walk->noun);
}

static const struct amb_cli_option *find_letter(const struct amb_cli_walk *walk, char letter)
{
    const char name[2] = {letter, '\0'};
    return amb_cli_option_find(walk->line->program, amb_cli_walk_command(walk), name);
}

static bool is_given(const struct amb_cli_walk *walk, const struct amb_cli_option *option)
{
    for (size_t i = 0; i < walk->line->given_count; i++) {
        if (walk->line->given[i].option == option) {
            return true;
        }
    }
    return false;
}

/* word: "-n", "-nvalue", or flags in a row. The lists have room for each letter's row once. */
static enum amb_status take_letters(struct amb_cli_walk *walk, char *word)
{
    for (char *at = word + 1; *at != '\0'; at++) {
        const struct amb_cli_option *option = find_letter(walk, *at);
        if (option == NULL) {
            char shown[3] = {'-', *at > 0x20 && *at < 0x7f ? *at : '?', '\0'};
            const struct search none = {.name = NULL};
            return refuse_option(walk, &none, shown);
        }
        walk->is_letter = true;
        if (option->type == AMB_CLI_FLAG) {
            if (!is_given(walk, option)) {
                give(walk, option, NULL);
            }
            continue;
        }
        if (at[1] != '\0') {
            give(walk, option, at + 1);
        } else {
            walk->pending = option;
        }
        break;
    }
    return AMB_OK;
}

enum amb_status amb_cli_walk_word(struct amb_cli_walk *walk, char *word)
{
    if (walk->pending != NULL) {
        give(walk, walk->pending, word);
        walk->pending = NULL;
        return AMB_OK;
    }
    if (walk->has_ended || word[0] != '-' || word[1] == '\0') {
        return take_argument(walk, word);
    }
    if (strcmp(word, "--") == 0) {
        walk->has_ended = true;
        return AMB_OK;
    }
    return word[1] == '-' ? take_long(walk, word) : take_letters(walk, word);
}

enum amb_status amb_cli_walk_begin(struct amb_cli_walk *walk, struct amb_cli_line *line,
                                   size_t count, char *error)
{
    *walk = (struct amb_cli_walk){.line = line, .error = error};
    size_t flags = 0; /* "-abc" gives each flag at most once, whatever the number of words. */
    for (const struct amb_cli_command *c = line->program->commands; c != NULL && c->name != NULL;
         c++) {
        for (const struct amb_cli_option *o = c->options; o != NULL && amb_cli_is_option(o); o++) {
            flags++;
        }
    }
    for (const struct amb_cli_option *o = line->program->options; o != NULL && amb_cli_is_option(o);
         o++) {
        flags++;
    }
    line->given = calloc(count + flags + 1, sizeof(*line->given));
    line->args = calloc(count + 1, sizeof(*line->args));
    if (line->given == NULL || line->args == NULL) {
        amb_cli_fini(line);
        (void)snprintf(error, AMB_CLI_ERROR_MAX, "command line: no memory");
        return AMB_ENOMEM;
    }
    return AMB_OK;
}
