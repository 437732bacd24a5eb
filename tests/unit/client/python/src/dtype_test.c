/* SPDX-License-Identifier: Apache-2.0 */
/* Types of elements, there and back. */
#include "client/python/src/dtype.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void what_has_a_code_comes_back(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t itemsize;
        uint8_t code;
        const char *out;
    } cases[] = {{NULL, 1, 1, "B"},  {"b", 1, 0, "b"},   {"<h", 2, 0, "h"}, {"=i", 4, 0, "i"},
                 {"l", 8, 0, "q"},   {"l", 4, 0, "i"},   {"@Q", 8, 1, "Q"}, {"L", 8, 1, "Q"},
                 {"e", 2, 2, "e"},   {"<f", 4, 2, "f"},  {"d", 8, 2, "d"},  {"?", 1, 6, "?"},
                 {"Zf", 8, 5, "Zf"}, {"Zd", 16, 5, "Zd"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct amb_tensor tensor = {0};
        assert_true(amb_py_dtype_of(cases[i].in, cases[i].itemsize, &tensor));
        assert_int_equal(tensor.code, cases[i].code);
        assert_int_equal(tensor.bits, 8 * cases[i].itemsize);
        assert_string_equal(amb_py_format_of(&tensor), cases[i].out);
    }
}

static void what_is_no_number_of_this_machine_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {">f",      "!i", "",  "@", "O", "4s",
                                        "T{f:x:}", "ff", "Z", "c", "P", "x"};
    struct amb_tensor tensor = {0};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(amb_py_dtype_of(wrong[i], 4, &tensor));
    }
    assert_false(amb_py_dtype_of("B", 0, &tensor));
    assert_false(amb_py_dtype_of("d", 32, &tensor));
    const struct amb_tensor none[] = {{.code = 4, .bits = 16, .lanes = 1}, /* bfloat16 */
                                      {.code = 0, .bits = 8, .lanes = 4},
                                      {.code = 0, .bits = 4, .lanes = 1}};
    for (size_t i = 0; i < 3; i++) {
        assert_null(amb_py_format_of(&none[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_a_code_comes_back),
        cmocka_unit_test(what_is_no_number_of_this_machine_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
