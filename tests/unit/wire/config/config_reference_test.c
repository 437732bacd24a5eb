/* SPDX-License-Identifier: Apache-2.0 */
/* A row as a line of a table. */
#include "wire/config/config_reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct amb_config_key keys[] = {
    {.path = "a.count", .type = AMB_CONFIG_COUNT, .default_text = "3", .max = 9, .help = "A | b."},
    {.path = "a.name", .type = AMB_CONFIG_TEXT, .default_text = "", .max = 4, .help = "Name."},
    {.path = "a.later", .not_yet = true, .example_value = "1", .help = "Later."},
    {.path = "b", .elsewhere = true, .example_value = "{ }", .help = "Another's."},
};

static void test_each_row_is_a_line(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    amb_config_table_print(keys, 4, stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "| key | default | allowed | applies | what |\n"
                              "|---|---|---|---|---|\n"
                              "| `a.count` | `3` | a number, 0 to 9 | restart | A \\| b. |\n"
                              "| `a.name` | `\"\"` | a text of 0 to 4 bytes | restart | Name. |\n"
                              "| `a.later` | - | not yet supported | - | Later. |\n"
                              "| `b` | - | not looked at | - | Another's. |\n");
    free(text);
}

static void test_a_row_without_a_field_shows_its_example(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    amb_config_default_print(&keys[2], stream);
    amb_config_default_print(&keys[3], stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "1{ }");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_is_a_line),
        cmocka_unit_test(test_a_row_without_a_field_shows_its_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
