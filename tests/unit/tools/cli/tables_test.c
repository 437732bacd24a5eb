/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the three programs. Each row is whole, and each option takes a right value and
 * refuses a wrong one. Former command lines still work. */
#include "tools/cli/tables.h"

#include "tests/unit/tools/cli/words.h"
#include "tools/cli/parse.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NUMBER_MAX 32

static const struct amb_cli_program *const programs[] = {&amb_cli_broker_ctl, &amb_cli_broker_bench,
                                                         &amb_cli_brokerd};
#define PROGRAM_COUNT (sizeof(programs) / sizeof(programs[0]))

static char error[AMB_CLI_ERROR_MAX];

static enum amb_status try(const struct amb_cli_program *program, struct words *words)
{
    struct amb_cli_line line;
    error[0] = '\0';
    enum amb_status status =
        amb_cli_parse(program, words->count, words->items, &line, error, sizeof(error));
    if (status == AMB_OK) {
        amb_cli_fini(&line);
    }
    return status;
}

/* ---- former command lines ---- */

static void test_each_line_that_worked_still_works(void **state)
{
    (void)state;
    FILE *file = fopen(AMB_SOURCE_DIR "/tests/unit/tools/cli/lines.txt", "re");
    assert_non_null(file);
    char text[WORDS_TEXT_MAX];
    struct words words;
    unsigned count = 0, wrong = 0;
    while (fgets(text, sizeof(text), file) != NULL) {
        if (text[0] == '#') {
            continue;
        }
        assert_true(words_split(&words, text));
        const struct amb_cli_program *program = NULL;
        for (size_t i = 0; i < PROGRAM_COUNT; i++) {
            program = strcmp(programs[i]->name, words.items[0]) == 0 ? programs[i] : program;
        }
        assert_non_null(program);
        count++;
        if (try(program, &words) != AMB_OK) {
            wrong++;
            print_message("%s    %s\n", text, error);
        }
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(wrong, 0);
    assert_true(count > 500); /* The list is there as a whole. */
}

/* ---- a right and a wrong value ---- */

/* The values of one option; the texts may be in `numbers`. NULL: there is none of that kind. */
struct values {
    char numbers[3][NUMBER_MAX];
    const char *right, *wrong[3];
};

static void number_values(const struct amb_cli_option *option, const char *unit,
                          struct values *values)
{
    uint64_t right = option->min > 0 ? option->min : option->max > 0 ? option->max : 1;
    (void)snprintf(values->numbers[0], NUMBER_MAX, "%" PRIu64 "%s", right, unit);
    values->right = values->numbers[0];
    values->wrong[0] = "many";
    if (option->min > 0) {
        (void)snprintf(values->numbers[1], NUMBER_MAX, "%" PRIu64 "%s", option->min - 1, unit);
        values->wrong[1] = values->numbers[1];
    }
    if (option->max > 0 && option->max < UINT64_MAX) {
        (void)snprintf(values->numbers[2], NUMBER_MAX, "%" PRIu64 "%s", option->max + 1, unit);
        values->wrong[2] = values->numbers[2];
    }
}

static void find_values(const struct amb_cli_option *option, struct values *values)
{
    *values = (struct values){.right = "text"};
    switch (option->type) {
    case AMB_CLI_COUNT:
    case AMB_CLI_SIZE:
        number_values(option, "", values);
        break;
    case AMB_CLI_TIME:
        number_values(option, "ns", values);
        break;
    case AMB_CLI_RATE:
        values->right = "0.5";
        values->wrong[0] = "0";
        values->wrong[1] = "-1";
        break;
    case AMB_CLI_WORD:
        values->right = option->words[0].word;
        values->wrong[0] = "no-such-word";
        break;
    case AMB_CLI_FILE:
    case AMB_CLI_FOLDER:
        values->wrong[0] = "";
        break;
    case AMB_CLI_TEXT:
        if (option->fault != NULL) {
            values->right = option->right;
            values->wrong[0] = option->wrong;
        } else if (option->min > 0) {
            values->wrong[0] = "";
        }
        break;
    case AMB_CLI_FLAG:
    case AMB_CLI_PATTERN:
        break;
    }
}

/* Program, command and, where it needs some, arguments. */
static void begin(struct words *words, const struct amb_cli_program *program,
                  const struct amb_cli_command *command)
{
    char text[AMB_CLI_NAME_MAX * 2];
    (void)snprintf(text, sizeof(text), "%s %s", program->name,
                   command != NULL ? command->name : "");
    assert_true(words_split(words, text));
}

static void end(struct words *words, const struct amb_cli_command *command)
{
    static char plain[] = "word";
    const struct amb_cli_arg *arg = command != NULL ? command->args : NULL;
    for (; arg != NULL && arg->name != NULL; arg++) {
        char *word = arg->words != NULL ? (char *)(uintptr_t)arg->words[0].word : plain;
        assert_true(words_add(words, word));
    }
}

/* "--name" "value", as two words or as one. */
static enum amb_status try_value(const struct amb_cli_program *program,
                                 const struct amb_cli_command *command,
                                 const struct amb_cli_option *option, const char *value)
{
    struct words words;
    char shown[AMB_CLI_NAME_MAX], needed[AMB_CLI_NAME_MAX + 8];
    begin(&words, program, command);
    assert_true(words_add(&words, (char *)(uintptr_t)amb_cli_option_shown(option, shown)));
    if (option->type != AMB_CLI_FLAG) {
        assert_true(words_add(&words, (char *)(uintptr_t)value));
    }
    if (option->needs != NULL) {
        (void)snprintf(needed, sizeof(needed), "--%s=x", option->needs);
        assert_true(words_add(&words, needed));
    }
    end(&words, command);
    return try(program, &words);
}

static void try_option(const struct amb_cli_program *program, const struct amb_cli_command *command,
                       const struct amb_cli_option *option)
{
    struct values values;
    struct words words;
    char shown[AMB_CLI_NAME_MAX], joined[AMB_CLI_NAME_MAX + 8];
    find_values(option, &values);
    (void)amb_cli_option_shown(option, shown);
    if (try_value(program, command, option, values.right) != AMB_OK) {
        fail_msg("%s: '%s' is refused: %s", shown, values.right, error);
    }
    for (size_t i = 0; i < sizeof(values.wrong) / sizeof(values.wrong[0]); i++) {
        const char *wrong = values.wrong[i];
        if (wrong != NULL && try_value(program, command, option, wrong) != AMB_EINVAL) {
            fail_msg("%s %s: '%s' is taken", command != NULL ? command->name : "", shown, wrong);
        }
        assert_true(wrong == NULL || strstr(error, shown) != NULL);
    }
    /* A flag with a value, and another option without. */
    begin(&words, program, command);
    (void)snprintf(joined, sizeof(joined), "%s%s", shown, option->type == AMB_CLI_FLAG ? "=x" : "");
    assert_true(words_add(&words, joined));
    assert_int_equal(try(program, &words), AMB_EINVAL);
    assert_non_null(strstr(error, shown));
}

static void try_options(const struct amb_cli_program *program,
                        const struct amb_cli_command *command)
{
    const struct amb_cli_option *options = command != NULL ? command->options : NULL;
    for (; options != NULL && amb_cli_is_option(options); options++) {
        try_option(program, command, options);
    }
    for (options = program->options; amb_cli_is_option(options); options++) {
        bool is_taken = command == NULL || amb_cli_takes(command, options);
        bool is_hidden = command != NULL && options->name != NULL &&
                         amb_cli_option_named(command->options, options->name) != NULL;
        bool is_end = options->name != NULL &&
                      (strcmp(options->name, "help") == 0 || strcmp(options->name, "version") == 0);
        if (is_taken && !is_hidden && !is_end) {
            try_option(program, command, options);
        }
    }
}

static void test_each_option_has_a_right_and_a_wrong_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        const struct amb_cli_command *command = programs[i]->commands;
        if (command == NULL) {
            try_options(programs[i], NULL);
        }
        for (; command != NULL && command->name != NULL; command++) {
            try_options(programs[i], command);
        }
    }
}

static void test_options_that_exclude_each_other(void **state)
{
    (void)state;
    unsigned count = 0;
    const struct amb_cli_program *program = &amb_cli_broker_ctl;
    for (const struct amb_cli_command *c = program->commands; c->name != NULL; c++) {
        for (const struct amb_cli_option *o = c->options; o != NULL && amb_cli_is_option(o); o++) {
            struct words words;
            char list[WORDS_TEXT_MAX], *rest = list, *name;
            (void)snprintf(list, sizeof(list), "%s", o->excludes != NULL ? o->excludes : "");
            while ((name = strtok_r(rest, ",", &rest)) != NULL) {
                const struct amb_cli_option *other = amb_cli_option_find(program, c, name);
                assert_non_null(other);
                struct values values, others;
                char shown[AMB_CLI_NAME_MAX], other_shown[AMB_CLI_NAME_MAX];
                find_values(o, &values);
                find_values(other, &others);
                begin(&words, program, c);
                (void)words_add(&words,
                                (char *)(uintptr_t)amb_cli_option_shown(other, other_shown));
                if (other->type != AMB_CLI_FLAG) {
                    (void)words_add(&words, (char *)(uintptr_t)others.right);
                }
                (void)words_add(&words, (char *)(uintptr_t)amb_cli_option_shown(o, shown));
                if (o->type != AMB_CLI_FLAG) {
                    (void)words_add(&words, (char *)(uintptr_t)values.right);
                }
                end(&words, c);
                assert_int_equal(try(program, &words), AMB_EINVAL);
                assert_non_null(strstr(error, "does not go with"));
                count++;
            }
        }
    }
    assert_true(count >= 9);
}

/* In how many commands the name stands: with a value in each, or in none. */
static unsigned check_name(const struct amb_cli_program *program,
                           const struct amb_cli_option *option)
{
    unsigned count = 0;
    for (const struct amb_cli_command *c = program->commands; c->name != NULL; c++) {
        const struct amb_cli_option *other = amb_cli_option_find(program, c, option->name);
        count += other != NULL;
        if (other != NULL && (other->type == AMB_CLI_FLAG) != (option->type == AMB_CLI_FLAG)) {
            fail_msg("--%s of %s", option->name, c->name);
        }
    }
    return count;
}

/* An option may stand before its command, where nothing but its name is known. */
static void test_a_name_takes_a_value_in_each_command_or_in_none(void **state)
{
    (void)state;
    unsigned count = 0;
    const struct amb_cli_program *program = &amb_cli_broker_ctl;
    for (const struct amb_cli_command *c = program->commands; c->name != NULL; c++) {
        for (const struct amb_cli_option *o = c->options; o != NULL && amb_cli_is_option(o); o++) {
            count += o->name == NULL ? 0 : check_name(program, o);
        }
    }
    assert_true(count > 100);
}

/* ---- rows ---- */

static void check_option(const struct amb_cli_option *option)
{
    assert_non_null(option->help);
    assert_true((option->type == AMB_CLI_FLAG) == (option->value == NULL));
    assert_true((option->type == AMB_CLI_WORD) == (option->words != NULL));
    assert_true(option->fault == NULL || (option->right != NULL && option->wrong != NULL));
    assert_true(option->help[strlen(option->help) - 1] != '.');
}

static void check_command(const struct amb_cli_program *program,
                          const struct amb_cli_command *command)
{
    struct words words;
    assert_non_null(command->help);
    assert_true(command->help[strlen(command->help) - 1] != '.');
    assert_ptr_equal(amb_cli_command_named(program, command->name), command);
    for (const char *const *alias = command->aliases; alias != NULL && *alias != NULL; alias++) {
        assert_ptr_equal(amb_cli_command_named(program, *alias), command);
    }
    for (const struct amb_cli_option *o = command->options; o != NULL && amb_cli_is_option(o);
         o++) {
        check_option(o);
    }
    /* An example is a line that is taken. */
    assert_non_null(command->example);
    if (strchr(command->example, '<') == NULL) {
        assert_true(words_split(&words, command->example));
        if (try(program, &words) != AMB_OK) {
            fail_msg("%s: %s", command->example, error);
        }
    }
}

static void test_each_row_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        const struct amb_cli_command *command = programs[i]->commands;
        for (; command != NULL && command->name != NULL; command++) {
            check_command(programs[i], command);
        }
        for (const struct amb_cli_option *o = programs[i]->options; amb_cli_is_option(o); o++) {
            check_option(o);
        }
    }
}

static void test_habits_name_what_is_there(void **state)
{
    (void)state;
    const struct amb_cli_habit *habit = amb_cli_broker_ctl.habits;
    for (; habit->word != NULL; habit++) {
        struct words words;
        char word[AMB_CLI_NAME_MAX];
        static char program[] = "broker-ctl";
        words.count = 0;
        (void)snprintf(word, sizeof(word), "%s", habit->word);
        assert_true(words_add(&words, program) && words_add(&words, word));
        assert_int_equal(try(&amb_cli_broker_ctl, &words), AMB_EINVAL);
        assert_non_null(strstr(error, habit->hint));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_line_that_worked_still_works),
        cmocka_unit_test(test_each_option_has_a_right_and_a_wrong_value),
        cmocka_unit_test(test_options_that_exclude_each_other),
        cmocka_unit_test(test_a_name_takes_a_value_in_each_command_or_in_none),
        cmocka_unit_test(test_each_row_is_whole),
        cmocka_unit_test(test_habits_name_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
