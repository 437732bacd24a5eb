/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over a schema opens and closes each group once, innermost first. */
#include "wire/config/config_groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void on_group(const char *group, unsigned depth, const void *arg, FILE *out)
{
    assert_string_equal(arg, "arg");
    (void)fprintf(out, "%u[%s\n", depth, group);
}

static void on_key(const struct amb_config_key *key, unsigned depth, const void *arg, FILE *out)
{
    (void)arg;
    (void)fprintf(out, "%u=%s\n", depth, key->path);
}

static void expect_walk(const char *const *paths, size_t count, const char *expected)
{
    static const struct amb_config_visitor visitor = {on_group, on_key};
    struct amb_config_key keys[8];
    char *text = NULL;
    size_t size;
    memset(keys, 0, sizeof(keys));
    for (size_t i = 0; i < count; i++) {
        keys[i].path = paths[i];
    }
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    amb_config_visit(keys, count, &visitor, "arg", stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void test_groups_open_and_close_once(void **state)
{
    (void)state;
    static const char *const paths[] = {"a", "b.c", "b.d.e", "b.d.f", "b.g", "bb.c", "z.y.x"};
    expect_walk(paths, 7,
                "0=a\n0[b\n1=b.c\n1[b.d\n2=b.d.e\n2=b.d.f\n    };\n1=b.g\n};\n0[bb\n1=bb.c\n};\n"
                "0[z\n1[z.y\n2=z.y.x\n    };\n};\n");
}

static void test_no_rows_print_nothing(void **state)
{
    (void)state;
    expect_walk(NULL, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_open_and_close_once),
        cmocka_unit_test(test_no_rows_print_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
