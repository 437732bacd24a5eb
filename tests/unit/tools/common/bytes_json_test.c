/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/bytes_json. */
#include "tools/common/bytes_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const void *bytes, size_t len, size_t max, const char *expected)
{
    json_t *object = json_object();
    assert_true(amb_bytes_json(object, "payload", bytes, len, max));
    char *text = json_dumps(object, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(object);
}

#define CHECK(bytes, max, expected) check(bytes, sizeof(bytes) - 1, max, expected)

static void test_text_stays_text(void **state)
{
    (void)state;
    CHECK("", 0, "{\"payload\":\"\"}");
    CHECK("a \"b\"\r\n\tc", 64, "{\"payload\":\"a \\\"b\\\"\\r\\n\\tc\"}");
    CHECK("\xe2\x82\xac", 3, "{\"payload\":\"\xe2\x82\xac\"}");
}

static void test_all_else_is_base64(void **state)
{
    (void)state;
    CHECK("\0", 64, "{\"payload_base64\":\"AA==\"}");
    CHECK("\xff\xfe", 64, "{\"payload_base64\":\"//4=\"}");
    CHECK("\x1b[2J", 64, "{\"payload_base64\":\"G1sySg==\"}");
    /* C1 in two bytes would drive a terminal, too; half a character is no text. */
    CHECK("\xc2\x9b", 64, "{\"payload_base64\":\"wps=\"}");
    CHECK("\xe2\x82", 64, "{\"payload_base64\":\"4oI=\"}");
}

static void test_a_long_one_is_cut(void **state)
{
    (void)state;
    CHECK("abcd", 3, "{\"payload\":\"abc\",\"payload_cut\":true}");
    CHECK("abcd", 0, "{\"payload\":\"\",\"payload_cut\":true}");
    CHECK("a\xe2\x82\xac", 3, "{\"payload\":\"a\",\"payload_cut\":true}");
    CHECK("\xe2\x82\xac", 2, "{\"payload\":\"\",\"payload_cut\":true}");
    CHECK("\xff\xfe\xfd", 2, "{\"payload_base64\":\"//4=\",\"payload_cut\":true}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_stays_text),
        cmocka_unit_test(test_all_else_is_base64),
        cmocka_unit_test(test_a_long_one_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
