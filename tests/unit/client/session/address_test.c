/* SPDX-License-Identifier: Apache-2.0 */
/* amb_interface_address, on the machine of tests/support/interfaces.h and on this one. */
#include "client/session/address.h"

#include "tests/support/interfaces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The address of an interface, or the sentence. */
static const char *address_of(const struct amb_interfaces *interfaces, const char *name)
{
    static char out[AMB_ADDRESS_MAX];
    static struct amb_error error;
    error = (struct amb_error){.status = AMB_OK};
    enum amb_status status = amb_address_choose(interfaces, name, out, sizeof(out), &error);
    assert_int_equal(status, error.status);
    return status == AMB_OK ? out : error.text;
}

static void others_are_given_what_they_can_use(void **state)
{
    (void)state;
    assert_string_equal(address_of(&try_interfaces, "eth0"), "192.0.2.2");
    assert_string_equal(address_of(&try_interfaces, "eth0.5"), "10.5.0.2");
    assert_string_equal(address_of(&try_interfaces, "lo"), "127.0.0.1");
    assert_string_equal(address_of(&try_interfaces, NULL), "192.0.2.2");
}

static void an_ipv6_address_is_as_a_url_has_it(void **state)
{
    (void)state;
    struct amb_interface rows[] = {TRY_INTERFACE("a", 1, true), TRY_INTERFACE("b", 2, true),
                                   TRY_V6("a", 1, 64, 0xfe, 0x80, 0, 0, 1),
                                   TRY_V6("b", 2, 64, 0x20, 0x01, 0x0d, 0xb8, 7)};
    struct amb_interfaces interfaces = {rows, 4};
    assert_string_equal(address_of(&interfaces, "b"), "[2001:db8::7]");
    assert_string_equal(address_of(&interfaces, NULL), "[2001:db8::7]");
    rows[2] = (struct amb_interface)TRY_V4("a", 1, 16, 169, 254, 3, 4);
    assert_string_equal(address_of(&interfaces, "a"), "169.254.3.4");
    assert_string_equal(address_of(&interfaces, NULL), "[2001:db8::7]");
    rows[2] = (struct amb_interface)TRY_V6("a", 1, 128, 0, 0, 0, 0, 1);
    assert_string_equal(address_of(&interfaces, "a"), "[::1]");
}

static void a_name_without_such_an_address_is_answered_with_those_there_are(void **state)
{
    (void)state;
    assert_string_equal(address_of(&try_interfaces, "ib0"),
                        "ib0 has no address that other machines can use (there are lo, " TRY_LIST
                        ")");
    assert_string_equal(address_of(&try_interfaces, "ib1"),
                        "ib1: the interface has no address (there are lo, " TRY_LIST ")");
    assert_string_equal(address_of(&try_interfaces, "eth7"),
                        "eth7: there is no interface with this name (there are lo, " TRY_LIST ")");
    assert_non_null(strstr(address_of(&try_interfaces, ""), "no interface with this name"));
    assert_non_null(strstr(address_of(&try_interfaces, "sixteen-bytes-it"), "at most 15 bytes"));
    assert_non_null(strstr(address_of(&try_interfaces, "eth0:1"), "an alias is no interface"));
    struct amb_interface rows[] = {TRY_INTERFACE("lo", 1, true), TRY_V4("lo", 1, 8, 127, 0, 0, 1)};
    const struct amb_interfaces alone = {rows, 2};
    assert_string_equal(address_of(&alone, NULL),
                        "this machine has no address that other machines can use (there are lo)");
}

/* As a load balancer's servers have it: others reach the balancer by it. */
static void another_s_address_on_loopback_is_for_those_who_ask_for_it(void **state)
{
    (void)state;
    struct amb_interface rows[] = {TRY_INTERFACE("lo", 1, true), TRY_INTERFACE("eth0", 2, true),
                                   TRY_V4("lo", 1, 32, 192, 0, 2, 100),
                                   TRY_V6("eth0", 2, 64, 0x20, 0x01, 0x0d, 0xb8, 7)};
    struct amb_interfaces interfaces = {rows, 4};
    assert_string_equal(address_of(&interfaces, NULL), "192.0.2.100");
    rows[0].is_loopback = rows[2].is_loopback = true;
    assert_string_equal(address_of(&interfaces, NULL), "[2001:db8::7]");
    assert_string_equal(address_of(&interfaces, "lo"), "192.0.2.100");
}

static void too_little_room_leaves_the_output_as_it_is(void **state)
{
    (void)state;
    char out[16] = "untouched";
    struct amb_error error = {.status = AMB_OK};
    assert_int_equal(amb_address_choose(&try_interfaces, "eth0", out, 9, &error), AMB_ETOOLARGE);
    assert_string_equal(out, "untouched");
    assert_int_equal(amb_address_choose(&try_interfaces, "eth0", out, 10, &error), AMB_OK);
    assert_string_equal(out, "192.0.2.2");
}

static void the_call_reads_this_machine(void **state)
{
    (void)state;
    char out[AMB_ADDRESS_MAX] = "untouched";
    struct amb_error error = {.status = AMB_OK};
    assert_int_equal(amb_interface_address("no-such-one", out, sizeof(out), &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, "no-such-one: there is no interface with this name"));
    assert_int_equal(amb_interface_address("no-such-one", out, sizeof(out), NULL), AMB_EINVAL);
    assert_string_equal(out, "untouched");
    assert_int_equal(amb_interface_address("lo", NULL, 0, &error), AMB_EINVAL);
    assert_int_equal(amb_interface_address("lo", out, 0, &error), AMB_EINVAL);
    assert_string_equal(error.text, "no room for an address");
    enum amb_status status = amb_interface_address("lo", out, sizeof(out), NULL);
    assert_true(status == AMB_EINVAL || strcmp(out, "127.0.0.1") == 0 || strcmp(out, "[::1]") == 0);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(others_are_given_what_they_can_use),
        T(an_ipv6_address_is_as_a_url_has_it),
        T(a_name_without_such_an_address_is_answered_with_those_there_are),
        T(another_s_address_on_loopback_is_for_those_who_ask_for_it),
        T(too_little_room_leaves_the_output_as_it_is),
        T(the_call_reads_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
