/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a users file: one line changes, and nothing else. A wrong line is told. */
#include "wire/auth/users_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT "# ours\n\na:t:-:-:-:uid/1\n  \n# of b\nb:t:r:-:off:uid/2,uid/3\n#end"

static struct amb_users_place find(const char *text, const char *name)
{
    struct amb_users_place place;
    char why[AMB_USERS_TEXT_WHY_MAX] = "";
    if (amb_users_text_find(text, strlen(text), "users", name, &place, why) != AMB_OK) {
        fail_msg("%s", why);
    }
    return place;
}

static void becomes(const char *text, const char *name, const char *line, const char *expected)
{
    struct amb_users_place place = find(text, name);
    size_t len;
    char *out = amb_users_text_put(text, strlen(text), &place, line, &len);
    assert_non_null(out);
    assert_int_equal(len, strlen(out));
    assert_string_equal(out, expected);
    free(out);
}

static void test_a_user_is_found(void **state)
{
    (void)state;
    struct amb_users_place place = find(TEXT, "b");
    assert_int_equal(place.number, 6);
    assert_memory_equal(&TEXT[place.at], "b:t:r:-:off:uid/2,uid/3", place.len);
    assert_int_equal(find(TEXT, "c").number, 0);
    assert_int_equal(find(TEXT, NULL).number, 0);
    assert_int_equal(find("", "a").number, 0);
}

static void test_one_line_changes(void **state)
{
    (void)state;
    becomes(TEXT, "a", "a:t:x:-:-:-",
            "# ours\n\na:t:x:-:-:-\n  \n# of b\nb:t:r:-:off:uid/2,uid/3\n#end");
    becomes(TEXT, "a", NULL, "# ours\n\n  \n# of b\nb:t:r:-:off:uid/2,uid/3\n#end");
    becomes(TEXT, "c", "c:t:-:-:-:-", TEXT "\nc:t:-:-:-:-\n");
    becomes("", "c", "c:t:-:-:-:-", "c:t:-:-:-:-\n");
    becomes("#\n", "c", "c:t:-:-:-:-", "#\nc:t:-:-:-:-\n");
    becomes("a:t:-:-:-:-", "a", NULL, "");
    becomes("a:t:-:-:-:-", "a", "a:u:-:-:-:-", "a:u:-:-:-:-");
    becomes("a:t:-:-:-:-\nb:t:-:-:-:-", "b", NULL, "a:t:-:-:-:-\n");
}

static void refuses(const char *text, size_t len, const char *part)
{
    struct amb_users_place place;
    char why[AMB_USERS_TEXT_WHY_MAX] = "";
    assert_int_equal(amb_users_text_find(text, len, "/etc/users", "a", &place, why), AMB_EINVAL);
    if (strstr(why, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, why);
    }
}

static void test_a_wrong_line_is_told(void **state)
{
    (void)state;
    static char lengthy[AMB_USER_LINE_MAX + 2];
    memset(lengthy, 'x', sizeof(lengthy) - 1);
    refuses(lengthy, sizeof(lengthy) - 1, "/etc/users:1: is longer than 4096 bytes");
    refuses("#\na\n", 4, "/etc/users:2: tenant missing");
    refuses("a:t:-:-:-:-\0", 12, "/etc/users:1: has a NUL");
    static const char twice[] = "a:t:-:-:-:-\n#\na:t:-:-:-:-\n";
    refuses(twice, strlen(twice),
            "/etc/users:3: the user a is there twice (the other one is in "
            "line 1)");
    static const char shared[] = "a:t:-:-:-:uid/7\nb:t:-:-:-:uid/7\n";
    refuses(shared, strlen(shared), "/etc/users:2: the credential uid/7 is there twice");
}

static bool count(const struct amb_user_line *line, const struct amb_users_place *place, void *arg)
{
    (void)place;
    unsigned *seen = arg;
    (*seen)++;
    return strcmp(line->name, "a") != 0;
}

static void test_each_user_is_seen_in_order(void **state)
{
    (void)state;
    char why[AMB_USERS_TEXT_WHY_MAX];
    static const char text[] = "b:t:-:-:-:-\na:t:-:-:-:-\nc:t:-:-:-:-\n";
    unsigned seen = 0;
    assert_int_equal(amb_users_text_each(text, strlen(text), "users", count, &seen, why), AMB_OK);
    assert_int_equal(seen, 2); /* It has ended that at `a`. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_user_is_found),
        cmocka_unit_test(test_one_line_changes),
        cmocka_unit_test(test_a_wrong_line_is_told),
        cmocka_unit_test(test_each_user_is_seen_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
