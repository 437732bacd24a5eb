/* SPDX-License-Identifier: Apache-2.0 */
/* Text and rows as mdoc, which has signs of its own. */
#include "wire/config/config_mdoc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct amb_config_key keys[] = {
    {.path = "a.count", .type = AMB_CONFIG_COUNT, .default_text = "3", .max = 9, .help = "One."},
    {.path = "a.later", .not_yet = true, .example_value = "1", .help = "Later."},
};

static char *text;
static FILE *stream;

static void begin(void)
{
    static size_t size;
    stream = open_memstream(&text, &size);
    assert_non_null(stream);
}

static void ends_as(const char *expected)
{
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void test_signs_are_text(void **state)
{
    (void)state;
    begin();
    amb_mdoc_put(".Sh \\n \"x\" -y", stream);
    ends_as("\\&.Sh \\en \\(dqx\\(dq \\-y");
}

static void test_each_sentence_has_a_line_and_a_stop(void **state)
{
    (void)state;
    begin();
    amb_mdoc_sentences("One. Two: a.b is no end. 'Three", stream);
    ends_as("One.\nTwo: a.b is no end.\n\\&'Three.\n");
}

static void test_each_row_is_an_entry(void **state)
{
    (void)state;
    begin();
    amb_config_mdoc_print(keys, 2, stream);
    ends_as(".Bl -tag -width Ds\n"
            ".It Ic a.count\nOne.\nDefault: 3.\nAllowed:\na number, 0 to 9.\nApplies: restart.\n"
            ".It Ic a.later\nLater.\nIt is not supported yet.\n"
            ".El\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signs_are_text),
        cmocka_unit_test(test_each_sentence_has_a_line_and_a_stop),
        cmocka_unit_test(test_each_row_is_an_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
