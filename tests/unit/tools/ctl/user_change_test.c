/* SPDX-License-Identifier: Apache-2.0 */
/* A user's line, changed by options: what they name and nothing else. */
#include "tools/ctl/user_change.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why[AMB_USER_CHANGE_WHY_MAX], out[AMB_USER_LINE_MAX + 1];

static bool apply(const struct amb_user_change *change, const char *before, const char *credential)
{
    char copy[AMB_USER_LINE_MAX + 1];
    (void)snprintf(copy, sizeof(copy), "%s", before == NULL ? "" : before);
    why[0] = '\0';
    return amb_user_change_apply(change, "cam7", credential, before == NULL ? NULL : copy, out,
                                 why);
}

static void becomes(const struct amb_user_change *change, const char *before,
                    const char *credential, const char *expected)
{
    if (!apply(change, before, credential)) {
        fail_msg("%s: %s", expected, why);
    }
    assert_string_equal(out, expected);
}

static void refuses(const struct amb_user_change *change, const char *before, const char *part)
{
    assert_false(apply(change, before, NULL));
    if (strstr(why, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, why);
    }
}

#define BEFORE "cam7:plant:a,b:small:until=2027-06-30,off:uid/1,uid/2"

static void test_a_new_user(void **state)
{
    (void)state;
    struct amb_user_change change = {0};
    assert_true(amb_user_change_is_empty(&change));
    becomes(&change, NULL, NULL, "cam7:default:-:-:-:-");
    assert_true(amb_user_change_role(&change, "camera"));
    assert_true(amb_user_change_add(&change, "uid/7"));
    assert_false(amb_user_change_is_empty(&change));
    change.tenant = "$";
    change.quota = "big";
    change.until = "2027-06-30";
    becomes(&change, NULL, "uid/8", "cam7:$:camera:big:until=2027-06-30:uid/7,uid/8");
}

static void test_what_is_not_named_stays(void **state)
{
    (void)state;
    becomes(&(struct amb_user_change){0}, BEFORE, NULL, BEFORE);
    becomes(&(struct amb_user_change){.has_off = true}, BEFORE, NULL,
            "cam7:plant:a,b:small:until=2027-06-30:uid/1,uid/2");
    becomes(&(struct amb_user_change){.until = "never"}, BEFORE, NULL,
            "cam7:plant:a,b:small:off:uid/1,uid/2");
    becomes(&(struct amb_user_change){.quota = "-"}, BEFORE, NULL,
            "cam7:plant:a,b:-:until=2027-06-30,off:uid/1,uid/2");
    becomes(&(struct amb_user_change){.roles = {"-"}, .role_count = 1}, BEFORE, NULL,
            "cam7:plant:-:small:until=2027-06-30,off:uid/1,uid/2");
    becomes(&(struct amb_user_change){.roles = {"c"}, .role_count = 1}, BEFORE, NULL,
            "cam7:plant:c:small:until=2027-06-30,off:uid/1,uid/2");
    struct amb_user_change change = {.removed = {"uid/1"}, .removed_count = 1};
    becomes(&change, BEFORE, "uid/3", "cam7:plant:a,b:small:until=2027-06-30,off:uid/2,uid/3");
    becomes(&change, "cam7:t:-:-:-:uid/1", NULL, "cam7:t:-:-:-:-");
}

static void test_what_is_wrong_is_told(void **state)
{
    (void)state;
    refuses(&(struct amb_user_change){.tenant = "a:b"}, NULL, "");
    refuses(&(struct amb_user_change){.roles = {"a,b"}, .role_count = 1}, NULL, "a ':' or a ','");
    refuses(&(struct amb_user_change){.roles = {"a b"}, .role_count = 1}, NULL, "has a blank");
    refuses(&(struct amb_user_change){.until = "2027-02-30"}, NULL, "is no day");
    refuses(&(struct amb_user_change){.added = {"pass/word"}, .added_count = 1}, NULL,
            "is no credential");
    refuses(&(struct amb_user_change){.added = {"cert/dns=a,uid/0"}, .added_count = 1}, NULL,
            "a ':' or a ','");
    refuses(&(struct amb_user_change){.removed = {"uid/9"}, .removed_count = 1}, BEFORE,
            "has no credential \"uid/9\"");
    static char lengthy[AMB_CREDENTIAL_MAX - 8];
    memset(lengthy, 'x', sizeof(lengthy) - 1);
    memcpy(lengthy, "cert/dns=", 9);
    refuses(&(struct amb_user_change){.added = {lengthy, lengthy, lengthy, lengthy, lengthy},
                                      .added_count = 5},
            NULL, "would be longer than 4096 bytes");
    struct amb_user_change full = {.added_count = AMB_USER_CREDENTIALS_MAX,
                                   .role_count = AMB_USER_ROLES_MAX};
    assert_false(amb_user_change_add(&full, "uid/1"));
    assert_false(amb_user_change_role(&full, "r"));
}

static void test_lists_for_people(void **state)
{
    (void)state;
    char text[AMB_USER_LINE_MAX + 1], flags[AMB_USER_LINE_MAX + 1];
    const char *items[] = {"a", "b"};
    const struct amb_user_line line = {
        .until_s = AMB_USER_FOR_EVER,
        .credentials = {"token/sha256-"
                        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                        "uid/7"},
        .credential_count = 2,
        .is_off = true};
    amb_user_list_format(items, 2, text);
    assert_string_equal(text, "a,b");
    amb_user_list_format(items, 0, text);
    assert_string_equal(text, "-");
    amb_user_change_kinds(&line, text);
    assert_string_equal(text, "token,uid/7");
    amb_user_flags_format(&line, flags);
    assert_string_equal(flags, "off");
    amb_user_flags_format(&(struct amb_user_line){.until_s = AMB_USER_FOR_EVER}, flags);
    assert_string_equal(flags, "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_user),
        cmocka_unit_test(test_what_is_not_named_stays),
        cmocka_unit_test(test_what_is_wrong_is_told),
        cmocka_unit_test(test_lists_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
