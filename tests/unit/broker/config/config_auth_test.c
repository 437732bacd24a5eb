/* SPDX-License-Identifier: Apache-2.0 */
/* Users in a configuration: files that are wrong, and files that have changed at a reload. */
#include "broker/config/config_auth.h"

#include "broker/auth/users.h"
#include "broker/config/print/config_print.h"
#include "tests/support/config_try.h"
#include "tests/support/config_users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *text_of(const char *more)
{
    static char text[512];
    (void)snprintf(text, sizeof(text), "auth = {\n  users = \"%s\";\n  %s };\n", users_path, more);
    return text;
}

static void test_a_users_file_makes_a_set(void **state)
{
    (void)state;
    users_write("a:t:-:-:-:uid/1\n");
    struct amb_config *config = try_accept(text_of(""));
    assert_int_equal(amb_auth_users_count(config->auth.users), 1);
    assert_true(amb_config_auth_asks(config));
    struct amb_auth_users *held = amb_auth_users_ref(config->auth.users);
    amb_config_forget_users(config);
    assert_null(config->auth.users);
    amb_config_destroy(&config);
    assert_non_null(amb_auth_users_find(held, "a"));
    amb_auth_users_unref(&held);
    config = try_accept("");
    assert_null(config->auth.users);
    assert_false(amb_config_auth_asks(config));
    amb_config_destroy(&config);
}

static void test_a_wrong_one_is_told_by_key_and_line(void **state)
{
    (void)state;
    char part[128];
    users_write("a:t:-:-:-:uid/1\nb:t:-:-:-:uid/1\n");
    (void)snprintf(part, sizeof(part), "configuration:2: auth.users: %s:2: the credential",
                   users_path);
    try_refuse_part(text_of(""), part);
    users_write("a:t:-:-:-:uid/1\n");
    assert_int_equal(chmod(users_path, 0660), 0);
    (void)snprintf(part, sizeof(part), "auth.users: %s can be read by others", users_path);
    try_refuse_part(text_of(""), part);
    try_refuse_part("auth = { users = \"/nowhere/users\"; };",
                    "auth.users: /nowhere/users cannot be read");
    try_refuse_part("auth = { users = ( ); };", "auth.users");
}

static void test_a_token_does_not_go_with_users(void **state)
{
    (void)state;
    users_write("a:t:-:-:-:uid/1\n");
    try_refuse_part(text_of("token = \"secret\";"), "auth.users: auth.token is set too");
    try_refuse_part(text_of("token_file = \"/nowhere\";"), "auth.token_file");
}

static void test_a_reload_sees_other_bytes_in_the_same_file(void **state)
{
    (void)state;
    char restart[200], live[200];
    users_write("a:t:-:-:-:uid/1\n");
    struct amb_config *before = try_accept(text_of(""));
    struct amb_config *same = try_accept(text_of(""));
    amb_config_diff(before, same, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "");
    users_write("b:t:-:-:-:uid/2\na:t:-:-:-:uid/1\n");
    struct amb_config_source source = try_source(text_of(""));
    source.former = before;
    struct amb_config *after = try_accept_source(&source);
    amb_config_diff(before, after, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "auth.users (configuration:2)");
    assert_int_equal(amb_auth_users_find(after->auth.users, "a")->number,
                     amb_auth_users_find(before->auth.users, "a")->number);
    amb_config_destroy(&before);
    amb_config_destroy(&same);
    amb_config_destroy(&after);
}

static struct amb_config *reload(const struct amb_config *former, const char *text)
{
    struct amb_config_source source = try_source(text);
    source.former = former;
    return try_accept_source(&source);
}

/* A number stands for what belongs to a user: it is given to nobody else, whatever comes between.
 */
static void test_users_keep_their_numbers_while_there_is_no_file(void **state)
{
    (void)state;
    users_write("a:t:-:-:-:uid/1\nb:t:-:-:-:uid/2\n");
    struct amb_config *first = try_accept(text_of(""));
    uint32_t of_a = amb_auth_users_find(first->auth.users, "a")->number;
    struct amb_config *without = reload(first, "");
    amb_config_forget_users(first);
    amb_config_destroy(&first);
    assert_null(without->auth.users);
    users_write("c:t:-:-:-:uid/3\nb:t:-:-:-:uid/2\na:t:-:-:-:uid/1\n");
    struct amb_config *again = reload(without, text_of(""));
    assert_int_equal(amb_auth_users_find(again->auth.users, "a")->number, of_a);
    assert_int_not_equal(amb_auth_users_find(again->auth.users, "c")->number, of_a);
    amb_config_destroy(&without);
    amb_config_destroy(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_users_file_makes_a_set),
        cmocka_unit_test(test_a_wrong_one_is_told_by_key_and_line),
        cmocka_unit_test(test_a_token_does_not_go_with_users),
        cmocka_unit_test(test_a_reload_sees_other_bytes_in_the_same_file),
        cmocka_unit_test(test_users_keep_their_numbers_while_there_is_no_file),
    };
    return cmocka_run_group_tests(tests, users_setup, users_teardown);
}
