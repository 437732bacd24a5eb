/* SPDX-License-Identifier: Apache-2.0 */
/* brokerd's command line. */
#include "broker/command_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARGS_MAX 8

static struct amb_command_line line;
static char *texts[ARGS_MAX + 1];

/* Parses copies: getopt may reorder argv. */
static enum amb_status parse(const char *const *args, char *error, size_t error_size)
{
    int argc = 0;
    for (; args[argc] != NULL; argc++) {
        assert_true(argc < ARGS_MAX);
        free(texts[argc]);
        texts[argc] = strdup(args[argc]);
        assert_non_null(texts[argc]);
    }
    char *argv[ARGS_MAX + 1];
    memcpy(argv, texts, sizeof(argv));
    argv[argc] = NULL;
    return amb_command_line_init(&line, argc, argv, error, error_size);
}

#define ACCEPT(...)                                                                                \
    do {                                                                                           \
        char error_[128] = "";                                                                     \
        const char *const args_[] = {"brokerd", __VA_ARGS__, NULL};                                \
        if (parse(args_, error_, sizeof(error_)) != AMB_OK) {                                      \
            fail_msg("refused: %s", error_);                                                       \
        }                                                                                          \
    } while (0)

#define REFUSE(expected, ...)                                                                      \
    do {                                                                                           \
        char error_[128] = "";                                                                     \
        const char *const args_[] = {"brokerd", __VA_ARGS__, NULL};                                \
        assert_int_equal(parse(args_, error_, sizeof(error_)), AMB_EINVAL);                        \
        assert_string_equal(error_, expected);                                                     \
    } while (0)

static int free_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARGS_MAX; i++) {
        free(texts[i]);
    }
    return 0;
}

static void test_no_arguments_mean_the_system_file(void **state)
{
    (void)state;
    const char *const args[] = {"brokerd", NULL};
    char error[64];
    assert_int_equal(parse(args, error, sizeof(error)), AMB_OK);
    assert_string_equal(line.config, "/etc/ambroker/broker.conf");
    assert_int_equal(line.action, AMB_COMMAND_LINE_RUN);
    assert_false(line.dev);
    amb_command_line_fini(&line);
}

static void test_dev_needs_no_file_but_may_have_one(void **state)
{
    (void)state;
    ACCEPT("--dev");
    assert_true(line.dev);
    assert_false(line.until_eof);
    amb_command_line_fini(&line);
    ACCEPT("--dev", "--until-eof");
    assert_true(line.until_eof);
    assert_int_equal(line.action, AMB_COMMAND_LINE_RUN);
    assert_null(line.config);
    amb_command_line_fini(&line);
    ACCEPT("--dev", "--config", "x.conf");
    assert_string_equal(line.config, "x.conf");
    amb_command_line_fini(&line);
}

static void test_lists_keep_their_order(void **state)
{
    (void)state;
    ACCEPT("--listen", "unix:///a", "-o", "a=1", "--listen=tcp://b:1", "-ob=2=3");
    assert_int_equal(line.listen_count, 2);
    assert_string_equal(line.listen[1], "tcp://b:1");
    assert_int_equal(line.setting_count, 2);
    assert_string_equal(line.settings[0], "a=1");
    assert_string_equal(line.settings[1], "b=2=3");
    amb_command_line_fini(&line);
}

static void test_a_shell_asks_for_words(void **state)
{
    (void)state;
    char program[] = "brokerd", ask[] = "__complete", word[] = "--li", *text = NULL;
    char *argv[] = {program, ask, word, NULL};
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_true(amb_command_line_complete(3, argv, out));
    assert_false(amb_command_line_complete(1, argv, out));
    assert_int_equal(fclose(out), 0);
    assert_memory_equal(text, "--listen\t", strlen("--listen\t"));
    free(text);
}

static void test_actions(void **state)
{
    (void)state;
    ACCEPT("--test-config");
    assert_int_equal(line.action, AMB_COMMAND_LINE_TEST_CONFIG);
    amb_command_line_fini(&line);
    ACCEPT("--print-config");
    assert_int_equal(line.action, AMB_COMMAND_LINE_PRINT_CONFIG);
    amb_command_line_fini(&line);
    ACCEPT("--version");
    assert_int_equal(line.action, AMB_COMMAND_LINE_VERSION);
    amb_command_line_fini(&line);
    ACCEPT("-h");
    assert_int_equal(line.action, AMB_COMMAND_LINE_HELP);
    amb_command_line_fini(&line);
}

static void test_wrong_arguments_are_named(void **state)
{
    (void)state;
    REFUSE("--frob: no such option (brokerd --help lists them)", "--frob");
    REFUSE("-x: no such option (brokerd --help lists them)", "-x");
    REFUSE("--config: needs a value (a file)", "--config");
    REFUSE("-o: needs a value (KEY=VALUE, as server.workers=2)", "-o");
    REFUSE("stray: takes no arguments", "--dev", "stray");
    REFUSE("-o 'workers': takes KEY=VALUE, as server.workers=2", "-o", "workers");
    REFUSE("--dev: takes no value", "--dev=1");
    REFUSE("--fr?b: no such option (brokerd --help lists them)", "--fr\x1b"
                                                                 "b");
}

static void test_endless_arguments_are_cut_in_the_text(void **state)
{
    (void)state;
    size_t size = 1 << 20;
    char *huge = malloc(size);
    assert_non_null(huge);
    memset(huge, 'a', size - 1);
    huge[size - 1] = '\0';
    char error[128] = "";
    const char *const args[] = {"brokerd", huge, NULL};
    assert_int_equal(parse(args, error, sizeof(error)), AMB_EINVAL);
    assert_non_null(strstr(error, "aaa..."));
    free(huge);
}

/* One file for both roles; --dev is for a broker of one's own, so it takes none. */
static void test_a_variable_names_the_file_of_both_roles(void **state)
{
    (void)state;
    assert_int_equal(setenv("AMB_CONFIG", "/srv/both.conf", 1), 0);
    ACCEPT("-t");
    assert_string_equal(line.config, "/srv/both.conf");
    amb_command_line_fini(&line);
    ACCEPT("--config", "/own.conf");
    assert_string_equal(line.config, "/own.conf");
    amb_command_line_fini(&line);
    ACCEPT("--dev");
    assert_null(line.config);
    amb_command_line_fini(&line);
    assert_int_equal(setenv("AMB_CONFIG", "", 1), 0);
    ACCEPT("-t");
    assert_string_equal(line.config, AMB_COMMAND_LINE_CONFIG_DEFAULT);
    amb_command_line_fini(&line);
    assert_int_equal(unsetenv("AMB_CONFIG"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_arguments_mean_the_system_file),
        cmocka_unit_test(test_a_variable_names_the_file_of_both_roles),
        cmocka_unit_test(test_dev_needs_no_file_but_may_have_one),
        cmocka_unit_test(test_lists_keep_their_order),
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_a_shell_asks_for_words),
        cmocka_unit_test(test_wrong_arguments_are_named),
        cmocka_unit_test(test_endless_arguments_are_cut_in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, free_texts);
}
