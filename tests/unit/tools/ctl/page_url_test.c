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

static void test_others_are_refused_and_it_is_said_why(void **state)
{
    (void)state;
    static const struct {
        const char *url, *fault;
    } bad[] = {
        {"file:///etc/passwd", "is neither http nor https"},
        {"javascript:alert(1)", "is neither http nor https"},
        {"HTTP", "is neither http nor https"},
        {"http://", "has no host"},
        {"http:///x", "has no host"},
        {"http://:80/", "has no host"},
        {"http://?key=1", "has no host"},
        {"http://good@evil/", "names a user, and may lead elsewhere"},
        {"http://a/\x1b]0;x\x07", "has bytes that no address has"},
        {"http://a/\n", "has bytes that no address has"},
        {"http://a b/", "has bytes that no address has"},
        {"http://a/\x7f", "has bytes that no address has"},
        {"http://a/\xc2\x9b", "has bytes that no address has"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *fault = amb_page_url_fault(bad[i].url);
        assert_non_null(fault);
        assert_string_equal(fault, bad[i].fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_of_pages_are_good),
        cmocka_unit_test(test_others_are_refused_and_it_is_said_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
