/* SPDX-License-Identifier: Apache-2.0 */
/* A line of a users file: its fields, and all that may be wrong with them. */
#include "wire/auth/user_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static char line[2 * AMB_USER_LINE_MAX];

static enum amb_user_line_kind parse(const char *text, struct amb_user_line *out, char *why)
{
    (void)snprintf(line, sizeof(line), "%s", text);
    return amb_user_line_parse(line, strlen(line), out, why);
}

static void takes(const char *text, struct amb_user_line *out)
{
    char why[AMB_USER_LINE_WHY_MAX] = "";
    if (parse(text, out, why) != AMB_USER_LINE_USER) {
        fail_msg("%s: %s", text, why);
    }
}

static void refuses(const char *text, const char *part)
{
    struct amb_user_line out;
    char why[AMB_USER_LINE_WHY_MAX] = "";
    assert_int_equal(parse(text, &out, why), AMB_USER_LINE_WRONG);
    if (strstr(why, part) == NULL) {
        fail_msg("%s: \"%s\" is not in: %s", text, part, why);
    }
}

static void test_a_line_has_six_fields(void **state)
{
    (void)state;
    struct amb_user_line user;
    takes("cam7:plant:camera,viewer:small:until=2027-06-30:" KEY ",uid/1000", &user);
    assert_string_equal(user.name, "cam7");
    assert_string_equal(user.tenant, "plant");
    assert_int_equal(user.role_count, 2);
    assert_string_equal(user.roles[0], "camera");
    assert_string_equal(user.roles[1], "viewer");
    assert_string_equal(user.quota, "small");
    assert_int_equal(user.until_s, 1814400000); /* 2027-07-01 00:00 UTC */
    assert_false(user.is_off);
    assert_int_equal(user.credential_count, 2);
    assert_string_equal(user.credentials[0], KEY);
    assert_string_equal(user.credentials[1], "uid/1000");
    takes("op:$:ops:-:-:uid/1000", &user);
    assert_string_equal(user.tenant, AMB_USER_OPERATORS);
    assert_null(user.quota);
    assert_int_equal(user.until_s, AMB_USER_FOR_EVER);
    /* Colons of a certificate's name are the last field's. */
    takes("web:plant:-:-:off:cert/uri=spiffe://plant:8443/web", &user);
    assert_int_equal(user.role_count, 0);
    assert_true(user.is_off);
    assert_string_equal(user.credentials[0], "cert/uri=spiffe://plant:8443/web");
    takes("_x@1-y:t:-:-:-:-", &user);
    assert_int_equal(user.credential_count, 0);
}

static void test_comments_and_empty_lines_are_nothing(void **state)
{
    (void)state;
    struct amb_user_line user;
    char why[AMB_USER_LINE_WHY_MAX];
    static const char *const nothing[] = {"", "#", "# a:b", "   ", "\t", "\r"};
    for (unsigned i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        assert_int_equal(parse(nothing[i], &user, why), AMB_USER_LINE_NOTHING);
    }
}

static void test_names_are_one_token_and_no_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "1000", "-",   "@a", "a.b", "a*",
                                        "a>b", "%u",   "a/b", "$",  "a=b", "\xc3\xa4"};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(amb_user_name_is(wrong[i]));
    }
    char longest[AMB_USER_NAME_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[AMB_USER_NAME_MAX + 1] = '\0';
    assert_false(amb_user_name_is(longest));
    longest[AMB_USER_NAME_MAX] = '\0';
    assert_true(amb_user_name_is(longest));
    refuses("a.b:t:-:-:-:-", "the user is no name (got \"a.b\"");
    refuses(":t:-:-:-:-", "the user is no name");
    refuses("a::-:-:-:-", "the tenant is no name");
    refuses("a:$x:-:-:-:-", "the tenant is no name");
    refuses("a:t:r,:-:-:-", "the role is no name");
    refuses("a:t::-:-:-", "the role is no name");
    refuses("a:t:r,s,r:-:-:-", "the role r is there twice");
    refuses("a:t:-::-:-", "the quota is no name");
    refuses("tcp:t:-:-:-:-", "cannot have the name tcp");
    refuses("nobody:t:-:-:-:-", "cannot have the name nobody");
}

static void test_fields_flags_and_credentials_that_are_wrong(void **state)
{
    (void)state;
    refuses("a", "tenant missing (allowed name:tenant:roles:quota:flags:credentials)");
    refuses("a:t:r:q:f", "credentials missing");
    refuses("a:t:-:-:on:-", "unknown flag");
    refuses("a:t:-:-:off,off:-", "there twice");
    refuses("a:t:-:-:until=2027-01-01,until=2027-01-02:-", "there twice");
    refuses("a:t:-:-:until=:-", "until is no day");
    refuses("a:t:-:-:until=2027-06-31:-", "until is no day (got \"2027-06-31\"");
    refuses("a:t:-:-:until=27-06-30:-", "until is no day");
    refuses("a:t:-:-:until=2027-6-3:-", "until is no day");
    refuses("a:t:-:-:until=2027-06-30x:-", "until is no day");
    refuses("a:t:-:-:-:", "is no credential");
    refuses("a:t:-:-:-:uid/1,", "credential \"\" is no credential");
    refuses("a:t:-:-:-:uid/x", "credential \"uid/x\" is no uid");
    refuses("a:t: -:-:-:-", "has a blank");
    refuses("a:t:-:-:-:-\r", "has a blank");
    refuses("\xc3\xa4:t:-:-:-:-", "does not print");
}

static void test_lines_have_limits(void **state)
{
    (void)state;
    struct amb_user_line user;
    char why[AMB_USER_LINE_WHY_MAX];
    char *text = malloc(2 * AMB_USER_LINE_MAX);
    assert_non_null(text);
    memset(text, '#', AMB_USER_LINE_MAX + 1);
    text[AMB_USER_LINE_MAX + 1] = '\0';
    refuses(text, "is longer than 4096 bytes");
    text[AMB_USER_LINE_MAX] = '\0';
    assert_int_equal(parse(text, &user, why), AMB_USER_LINE_NOTHING);
    char with_nul[] = "a:t:-\0:-:-:-";
    assert_int_equal(amb_user_line_parse(with_nul, sizeof(with_nul) - 1, &user, why),
                     AMB_USER_LINE_WRONG);
    assert_string_equal(why, "has a NUL");
    for (unsigned count = AMB_USER_ROLES_MAX; count <= AMB_USER_ROLES_MAX + 1; count++) {
        int len = snprintf(text, AMB_USER_LINE_MAX, "a:t:r0");
        for (unsigned i = 1; i < count; i++) {
            len += snprintf(text + len, 16, ",r%u", i);
        }
        (void)snprintf(text + len, 16, ":-:-:-");
        if (count == AMB_USER_ROLES_MAX) {
            takes(text, &user);
        } else {
            refuses(text, "too many roles (allowed 32)");
        }
        len = snprintf(text, AMB_USER_LINE_MAX, "a:t:-:-:-:uid/0");
        for (unsigned i = 1; i < count; i++) {
            len += snprintf(text + len, 16, ",uid/%u", i);
        }
        if (count == AMB_USER_ROLES_MAX) {
            takes(text, &user);
        } else {
            refuses(text, "too many credentials (allowed 32)");
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_has_six_fields),
        cmocka_unit_test(test_comments_and_empty_lines_are_nothing),
        cmocka_unit_test(test_names_are_one_token_and_no_number),
        cmocka_unit_test(test_fields_flags_and_credentials_that_are_wrong),
        cmocka_unit_test(test_lines_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
