/* SPDX-License-Identifier: Apache-2.0 */
/* Each suite is measured by itself. */
#include "wire/tls/tls_rate.h"

#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/tls/tls_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MB UINT64_C(1000000)

static struct tls_made made;
static struct amb_tls_context *server, *client;

static int setup(void **state)
{
    (void)state;
    tls_made_ends(&made, "broker.example", &server, &client);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_ends_fini(&made, &server, &client);
    return 0;
}

static void test_every_suite_has_a_rate_and_a_place(void **state)
{
    (void)state;
    static const char *const suites[AMB_TLS_SUITES] = {
        "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"};
    for (unsigned i = 0; i < AMB_TLS_SUITES; i++) {
        struct tls_two two;
        tls_two_make(&two, server, client, &(struct amb_tls_wish){.name = "broker.example"});
        assert_int_equal(SSL_set_ciphersuites(two.client->ssl, suites[i]), 1);
        tls_two_shake(&two);
        assert_int_equal(two.broker_status, AMB_OK);
        assert_string_equal(amb_tls_suite(two.broker), suites[i]);
        assert_int_equal(amb_tls_suite_index(two.broker), i);
        /* A rate that no machine of today misses, with a sanitizer and others beside it. */
        assert_in_range(amb_tls_measure(two.broker), MB, 1000000 * MB);
        tls_two_fini(&two);
    }
}

static void test_without_a_handshake_there_is_no_rate(void **state)
{
    (void)state;
    struct tls_two two;
    tls_two_make(&two, server, client, &(struct amb_tls_wish){.name = "broker.example"});
    assert_int_equal(amb_tls_measure(two.broker), 0);
    assert_int_equal(amb_tls_suite_index(two.broker), 0);
    tls_two_fini(&two);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_every_suite_has_a_rate_and_a_place),
        T(test_without_a_handshake_there_is_no_rate),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
