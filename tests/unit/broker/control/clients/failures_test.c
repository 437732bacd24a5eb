/* SPDX-License-Identifier: Apache-2.0 */
/* Failed logins, by address and time. */
#include "broker/control/clients/failures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#define SEC AMB_NS_PER_SEC

static void the_third_of_an_address_waits(void **state)
{
    (void)state;
    struct amb_failures failures = {0};
    assert_int_equal(amb_failures_note(&failures, "10.0.0.1:1111", SEC), 0);
    assert_int_equal(amb_failures_note(&failures, "10.0.0.1:2222", 2 * SEC), 0);
    assert_int_equal(amb_failures_note(&failures, "10.0.0.2:3333", 3 * SEC), 0); /* another */
    assert_int_equal(amb_failures_note(&failures, "10.0.0.1:4444", 3 * SEC), AMB_FAILURES_DELAY_NS);
    assert_int_equal(amb_failures_note(&failures, "10.0.0.1:4444", 12 * SEC),
                     AMB_FAILURES_DELAY_NS);
}

/* One host has more addresses of its network than anybody can count. */
static void an_ipv6_network_is_one_address(void **state)
{
    (void)state;
    struct amb_failures failures = {0};
    assert_int_equal(amb_failures_note(&failures, "2001:db8:1:2::1:1111", SEC), 0);
    assert_int_equal(amb_failures_note(&failures, "2001:db8:1:2:aaaa::1:1111", SEC), 0);
    assert_int_equal(amb_failures_note(&failures, "2001:db8:1:3::1:1111", SEC), 0);
    assert_int_equal(amb_failures_note(&failures, "2001:db8:1:2:a:b:c:d:1111", SEC),
                     AMB_FAILURES_DELAY_NS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(amb_failures_note(&failures, "fe80::1%eth0:1", SEC), 0);
    }
    assert_int_equal(amb_failures_note(&failures, "fe80::2%eth0:1", SEC), AMB_FAILURES_DELAY_NS);
    /* IPv4 addresses in IPv6 are addresses of their own. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(amb_failures_note(&failures, "::ffff:10.0.0.1:1", SEC), 0);
    }
    assert_int_equal(amb_failures_note(&failures, "::ffff:10.0.0.2:1", SEC), 0);
}

static void ten_quiet_seconds_forgive(void **state)
{
    (void)state;
    struct amb_failures failures = {0};
    for (int i = 0; i < 5; i++) {
        (void)amb_failures_note(&failures, "::1:1", SEC);
    }
    assert_int_equal(amb_failures_note(&failures, "::1:1", 12 * SEC), 0);
}

static void a_crowd_pushes_out_the_oldest(void **state)
{
    (void)state;
    struct amb_failures failures = {0};
    char address[32];
    for (int i = 0; i < 3; i++) {
        (void)amb_failures_note(&failures, "10.0.0.1:1", SEC);
    }
    for (unsigned i = 0; i < AMB_FAILURES_ADDRESSES; i++) {
        (void)snprintf(address, sizeof(address), "10.1.%u.%u:1", i / 256, i % 256);
        assert_int_equal(amb_failures_note(&failures, address, 2 * SEC), 0);
    }
    assert_int_equal(amb_failures_note(&failures, "10.0.0.1:1", 2 * SEC), 0);
    /* Longer than any address. */
    assert_int_equal(amb_failures_note(&failures,
                                       "a234567890123456789012345678901234567890123456789012345:1",
                                       2 * SEC),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_third_of_an_address_waits),
        cmocka_unit_test(an_ipv6_network_is_one_address),
        cmocka_unit_test(ten_quiet_seconds_forgive),
        cmocka_unit_test(a_crowd_pushes_out_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
