/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/page: the policy has the hash of each script and style, and the page is small. */
#include "broker/http/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define GZIP_MAX 61440u

static bool policy_of(const char *html, char *out, size_t size)
{
    return amb_http_page_policy(html, strlen(html), out, size);
}

static void test_scripts_and_styles_are_allowed_by_their_hashes(void **state)
{
    (void)state;
    char policy[AMB_PAGE_POLICY_MAX];
    assert_true(policy_of("<style>a{}</style><script>alert(1)</script><script></script>", policy,
                          sizeof(policy)));
    /* printf 'alert(1)' | openssl dgst -sha256 -binary | base64 */
    assert_non_null(strstr(
        policy, "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=' 'sha256-"));
    assert_non_null(strstr(policy, "; style-src 'sha256-"));
    assert_null(strstr(policy, "unsafe"));
    assert_non_null(strstr(policy, "default-src 'none'"));
}

static void test_a_policy_that_does_not_fit_is_none(void **state)
{
    (void)state;
    char policy[200];
    assert_false(policy_of("<script>a</script><script>b</script>", policy, sizeof(policy)));
    assert_false(policy_of("<script>never closed", policy, sizeof(policy)));
    assert_true(policy_of("no scripts", policy, sizeof(policy)));
}

static void test_the_page_that_was_built_is_small(void **state)
{
    (void)state;
    struct amb_http_page page;
    assert_int_equal(amb_http_page_init(&page), AMB_OK);
    if (amb_http_page_html_len == 0) {
        assert_null(amb_http_page_response(&page, false));
        skip();
    }
    assert_true(amb_http_page_gzip_len < GZIP_MAX);
    assert_true(amb_http_page_gzip[0] == 0x1f && amb_http_page_gzip[1] == 0x8b);
    assert_null(memmem(amb_http_page_html, amb_http_page_html_len, "sourceMappingURL", 16));
    assert_null(memmem(amb_http_page_html, amb_http_page_html_len, ".js@", 4));
    struct MHD_Response *response = amb_http_page_response(&page, true);
    assert_non_null(response);
    MHD_destroy_response(response);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts_and_styles_are_allowed_by_their_hashes),
        cmocka_unit_test(test_a_policy_that_does_not_fit_is_none),
        cmocka_unit_test(test_the_page_that_was_built_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
