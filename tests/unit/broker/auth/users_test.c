/* SPDX-License-Identifier: Apache-2.0 */
/* A set of users: read, asked, replaced by another; and files that are refused as a whole. */
#include "broker/auth/users.h"

#include "broker/base/user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static struct amb_auth_users *parse(const char *text, const struct amb_auth_users *former)
{
    struct amb_auth_users *users = NULL;
    char why[AMB_AUTH_WHY_MAX] = "";
    char *copy = strdup(text);
    assert_non_null(copy);
    struct amb_auth_numbers *numbers = former == NULL ? NULL : amb_auth_users_numbers(former);
    if (amb_auth_users_parse(copy, strlen(copy), "users", numbers, why, sizeof(why), &users) !=
        AMB_OK) {
        fail_msg("refused: %s", why);
    }
    memset(copy, 'x', strlen(text)); /* The set has its own. */
    free(copy);
    return users;
}

static void refuses(const char *text, size_t len, const char *expected)
{
    struct amb_auth_users *users = NULL;
    char why[AMB_AUTH_WHY_MAX] = "";
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    assert_int_equal(amb_auth_users_parse(copy, len, "users", NULL, why, sizeof(why), &users),
                     AMB_EINVAL);
    assert_null(users);
    assert_memory_equal(why, expected, strlen(expected));
    free(copy);
}

static void test_users_are_found_by_name_and_credential(void **state)
{
    (void)state;
    struct amb_auth_users *users = parse("# people\n"
                                         "cam7:plant:camera,viewer:small:-:" KEY ",uid/1000\n"
                                         "\n"
                                         "op:$:ops:-:until=2001-01-01:uid/1001",
                                         NULL);
    assert_int_equal(amb_auth_users_count(users), 2);
    const struct amb_auth_user *cam = amb_auth_users_find(users, "cam7");
    assert_ptr_equal(cam, amb_auth_users_at(users, 0));
    assert_ptr_equal(cam, amb_auth_users_by_credential(users, KEY));
    assert_ptr_equal(cam, amb_auth_users_by_credential(users, "uid/1000"));
    assert_string_equal(cam->tenant, "plant");
    assert_string_equal(cam->quota, "small");
    assert_int_equal(cam->role_count, 2);
    assert_string_equal(cam->roles[1], "viewer");
    assert_int_equal(cam->credential_count, 2);
    assert_int_equal(cam->line, 2);
    assert_true(amb_user_is_named(cam->number));
    assert_true(amb_auth_user_has(cam, "uid/1000"));
    assert_false(amb_auth_user_has(cam, "uid/1001"));
    const struct amb_auth_user *op = amb_auth_users_find(users, "op");
    assert_int_equal(op->line, 4);
    assert_true(amb_auth_user_may_enter(cam, 1000));
    assert_true(amb_auth_user_may_enter(op, 978393599)); /* The end of that day, UTC. */
    assert_false(amb_auth_user_may_enter(op, 978393600));
    assert_null(amb_auth_users_find(users, "nobody"));
    assert_null(amb_auth_users_by_credential(users, "uid/2"));
    const struct amb_auth_user *admin = amb_auth_users_local_admin(users);
    assert_true(admin->is_local_admin && amb_auth_user_may_enter(admin, INT64_MAX - 1));
    assert_string_equal(admin->tenant, AMB_USER_OPERATORS);
    amb_auth_users_unref(&users);
}

static void test_a_user_that_is_off_is_there_and_may_not_enter(void **state)
{
    (void)state;
    struct amb_auth_users *users = parse("a:t:-:-:off:uid/1\n", NULL);
    const struct amb_auth_user *user = amb_auth_users_by_credential(users, "uid/1");
    assert_non_null(user);
    assert_false(amb_auth_user_may_enter(user, 0));
    amb_auth_users_unref(&users);
}

static void test_numbers_outlive_sets_and_an_old_set_stays_whole(void **state)
{
    (void)state;
    struct amb_auth_users *first = parse("a:t:-:-:-:uid/1\nb:t:-:-:-:uid/2\n", NULL);
    struct amb_auth_users *held = amb_auth_users_ref(first);
    const struct amb_auth_user *old = amb_auth_users_find(first, "a");
    uint32_t a = old->number, b = amb_auth_users_find(first, "b")->number;
    struct amb_auth_users *second = parse("b:t:-:-:-:uid/2\na:other:-:-:-:uid/1\n", first);
    assert_int_equal(amb_auth_users_find(second, "b")->number, b);
    assert_int_not_equal(amb_auth_users_find(second, "a")->number, a); /* Of another tenant. */
    amb_auth_users_unref(&first);
    assert_string_equal(old->name, "a"); /* A session has the set still. */
    struct amb_auth_users *third = parse("a:t:-:-:-:-\n", second);
    assert_int_equal(amb_auth_users_find(third, "a")->number,
                     a); /* Back, and nobody's meanwhile. */
    assert_false(amb_auth_users_is_same(second, third));
    assert_false(amb_auth_users_is_same(NULL, third));
    assert_true(amb_auth_users_is_same(NULL, NULL));
    struct amb_auth_users *again = parse("a:t:-:-:-:-\n", third);
    assert_true(amb_auth_users_is_same(again, third));
    amb_auth_users_unref(&held);
    amb_auth_users_unref(&second);
    amb_auth_users_unref(&third);
    amb_auth_users_unref(&again);
    amb_auth_users_unref(&again);
}

#define REFUSES(text, expected) refuses(text, sizeof(text) - 1, expected)

static void test_a_wrong_line_refuses_the_file(void **state)
{
    (void)state;
    REFUSES("a:t:-:-:-:-\n\nb:t:-:-\n", "users:3: flags missing");
    REFUSES("a:t:-:-:-:uid/1\n#\nb:t:-:-:-:uid/1\n",
            "users:3: the credential uid/1 is there twice (the other one is in line 1)");
    REFUSES("a:t:-:-:-:uid/1,uid/1\n",
            "users:1: the credential uid/1 is there twice (the other one is in line 1)");
    /* Names are one for all tenants: a log line with a name means one user. */
    REFUSES("a:t:-:-:-:-\na:u:-:-:-:-\n",
            "users:2: the user a is there twice (the other one is in line 1)");
    REFUSES("a:t:-:-:-:-\n\0:t:-:-:-:-", "users:2: has a NUL");
    char *text = malloc(AMB_USER_LINE_MAX + 3);
    assert_non_null(text);
    memset(text, 'a', AMB_USER_LINE_MAX + 2);
    text[0] = '\n';
    refuses(text, AMB_USER_LINE_MAX + 2, "users:2: is longer than 4096 bytes");
    free(text);
}

static void test_there_are_100000_users_and_no_more(void **state)
{
    (void)state;
    size_t room = (size_t)(AMB_AUTH_USERS_MAX + 1) * 32, len = 0;
    char *text = malloc(room), *copy = malloc(room);
    char why[AMB_AUTH_WHY_MAX] = "";
    struct amb_auth_users *users = NULL;
    assert_true(text != NULL && copy != NULL);
    for (unsigned i = 0; i < AMB_AUTH_USERS_MAX; i++) {
        len += (size_t)snprintf(text + len, room - len, "u%u:t:-:-:-:uid/%u\n", i, i);
    }
    memcpy(copy, text, len + 1);
    assert_int_equal(amb_auth_users_parse(copy, len, "users", NULL, why, sizeof(why), &users),
                     AMB_OK);
    assert_int_equal(amb_auth_users_count(users), AMB_AUTH_USERS_MAX);
    assert_string_equal(amb_auth_users_by_credential(users, "uid/99999")->name, "u99999");
    amb_auth_users_unref(&users);
    len += (size_t)snprintf(text + len, room - len, "one_more:t:-:-:-:-");
    assert_int_equal(amb_auth_users_parse(text, len, "users", NULL, why, sizeof(why), &users),
                     AMB_EINVAL);
    assert_string_equal(why, "users:100001: too many users (allowed 100000)");
    free(text);
    free(copy);
}

static void test_a_file_is_read_if_it_is_private(void **state)
{
    (void)state;
    char path[] = "/tmp/amb-users-XXXXXX";
    char why[AMB_AUTH_WHY_MAX] = "";
    struct amb_auth_users *users = NULL;
    int fd = mkstemp(path);
    static const char text[] = "a:t:-:-:-:uid/1\n";
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(amb_auth_users_load(path, NULL, why, sizeof(why), &users), AMB_OK);
    assert_int_equal(amb_auth_users_count(users), 1);
    assert_true(amb_auth_users_modified_ns(users) > 0);
    amb_auth_users_unref(&users);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(amb_auth_users_load(path, NULL, why, sizeof(why), &users), AMB_EINVAL);
    assert_non_null(strstr(why, "can be read by others (got mode 0644"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(amb_auth_users_load(path, NULL, why, sizeof(why), &users), AMB_EINVAL);
    assert_non_null(strstr(why, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_users_are_found_by_name_and_credential),
        cmocka_unit_test(test_a_user_that_is_off_is_there_and_may_not_enter),
        cmocka_unit_test(test_numbers_outlive_sets_and_an_old_set_stays_whole),
        cmocka_unit_test(test_a_wrong_line_refuses_the_file),
        cmocka_unit_test(test_there_are_100000_users_and_no_more),
        cmocka_unit_test(test_a_file_is_read_if_it_is_private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
