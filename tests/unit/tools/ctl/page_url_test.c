/* SPDX-License-Identifier: Apache-2.0 */
/* An address that a broker names, before it is shown on a terminal. */
#include "tools/ctl/page_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_addresses_of_pages_are_good(void **state)
{
    (void)state;
    assert_null(amb_page_url_fault("http://127.0.0.1:7780/?key=0a1b"));
    assert_null(amb_page_url_fault("https://[::1]:7780/?key=0a1b"));
    assert_null(amb_page_url_fault("http://node7"));
}

static void test_others_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"file:///etc/passwd",
                                      "javascript:alert(1)",
                                      "HTTP",
                                      "http://",
                                      "http:///x",
                                      "http://:80/",
                                      "http://?key=1",
                                      "http://good@evil/",
                                      "http://a/\x1b]0;x\x07",
                                      "http://a/\n",
                                      "http://a b/",
                                      "http://a/\x7f",
                                      "http://a/\xc2\x9b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_non_null(amb_page_url_fault(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_of_pages_are_good),
        cmocka_unit_test(test_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
