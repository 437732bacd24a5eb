/* SPDX-License-Identifier: Apache-2.0 */
/* Files of contexts, and the faults that a hand may leave in them. */
#include "tools/ctl/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char home[] = "/tmp/amb-context-XXXXXX";
static char folder[AMB_CONTEXT_PATH_MAX];

static int make_home(void **state)
{
    (void)state;
    if (mkdtemp(home) == NULL || setenv("XDG_CONFIG_HOME", home, 1) != 0 ||
        !amb_context_folder(folder)) {
        return -1;
    }
    return mkdir(folder, 0700);
}

static int remove_home(void **state)
{
    (void)state;
    char path[AMB_CONTEXT_PATH_MAX];
    static const char *const names[] = {"a", "open"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (amb_context_path(names[i], path)) {
            (void)unlink(path);
        }
    }
    (void)snprintf(path, sizeof(path), "%.400s/chosen", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    return rmdir(home);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_a_file_has_three_keys(void **state)
{
    (void)state;
    char why[AMB_CONTEXT_WHY_MAX];
    struct amb_context context;
    char *text =
        strdup("# of a test\n\n url=tcp://a:1?link=ring \ncredentials = /k\nclient-name = x y");
    assert_true(amb_context_parse(text, "F", &context, why));
    assert_string_equal(context.url, "tcp://a:1?link=ring");
    assert_string_equal(context.credentials, "/k");
    assert_string_equal(context.client_name, "x y");
    amb_context_fini(&context);
    assert_true(amb_context_parse(strdup("url = a"), "F", &context, why));
    assert_null(context.credentials);
    amb_context_fini(&context);
}

static void test_faults_have_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"url = a\ntoken = x\n", "F:2: token: unknown key (url, credentials, client-name)"},
        {"url\n", "F:1: has no '='"},
        {"\n\nurl =  \n", "F:3: has no value"},
        {"url = a\n\nurl = b\n", "F:3: url: is there twice"},
        {"", "F: has no url"},
        {"credentials = /k\n", "F: has no url"},
        {"\033[2J = x", "F:1: ?[2J: unknown key (url, credentials, client-name)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[AMB_CONTEXT_WHY_MAX];
        struct amb_context context;
        assert_false(amb_context_parse(strdup(cases[i].text), "F", &context, why));
        assert_string_equal(why, cases[i].why);
    }
}

static void test_names_never_lead_away(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", ".", "..", ".a", "a/b", "../a", "a b", "\033"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(amb_context_name_is(wrong[i]));
    }
    assert_true(amb_context_name_is("prod-1.eu_west"));
    char name[AMB_CONTEXT_NAME_MAX + 2];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_false(amb_context_name_is(name));
}

static void test_files_are_their_owner_s_alone(void **state)
{
    (void)state;
    char path[AMB_CONTEXT_PATH_MAX], why[AMB_CONTEXT_WHY_MAX];
    struct amb_context context;
    assert_false(amb_context_read("none", &context, why));
    assert_true(amb_context_path("open", path));
    write_file(path, "url = unix:///x\n", 0644);
    assert_false(amb_context_read("open", &context, why));
    assert_non_null(strstr(why, "can be read by others"));
    assert_true(amb_context_path("a", path));
    write_file(path, "url = unix:///x\n", 0600);
    assert_true(amb_context_read("a", &context, why));
    assert_string_equal(context.url, "unix:///x");
    amb_context_fini(&context);
}

static void test_one_may_be_chosen(void **state)
{
    (void)state;
    char path[AMB_CONTEXT_PATH_MAX], name[AMB_CONTEXT_NAME_MAX + 1], why[AMB_CONTEXT_WHY_MAX];
    assert_true(amb_context_chosen(name, why));
    assert_string_equal(name, "");
    (void)snprintf(path, sizeof(path), "%.400s/chosen", folder);
    write_file(path, "a\n", 0600);
    assert_true(amb_context_chosen(name, why));
    assert_string_equal(name, "a");
    write_file(path, "../a", 0600);
    assert_false(amb_context_chosen(name, why));
    assert_non_null(strstr(why, "chosen:1: "));
}

static void test_a_folder_out_of_reach_has_none_chosen(void **state)
{
    (void)state;
    char name[AMB_CONTEXT_NAME_MAX + 1], why[AMB_CONTEXT_WHY_MAX];
    assert_int_equal(setenv("XDG_CONFIG_HOME", "/dev/null", 1), 0);
    assert_true(amb_context_chosen(name, why));
    assert_string_equal(name, "");
    assert_int_equal(setenv("XDG_CONFIG_HOME", home, 1), 0);
    assert_int_equal(chmod(home, 0), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* Not as root, who may look into any folder. */
        bool is_other = geteuid() != 0 || setuid(65534) == 0;
        _exit(is_other && amb_context_chosen(name, why) && name[0] == '\0' ? 0 : 1);
    }
    int ended = -1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(chmod(home, 0700), 0);
    assert_int_equal(ended, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_has_three_keys),
        cmocka_unit_test(test_faults_have_their_line),
        cmocka_unit_test(test_names_never_lead_away),
        cmocka_unit_test(test_files_are_their_owner_s_alone),
        cmocka_unit_test(test_one_may_be_chosen),
        cmocka_unit_test(test_a_folder_out_of_reach_has_none_chosen),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
