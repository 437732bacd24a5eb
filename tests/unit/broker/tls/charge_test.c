/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a TLS connection is charged to an account that has room for it. */
#include "broker/tls/charge.h"

#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/tls/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct amb_tls_wish wish = {.name = "broker.example"};

static void a_connection_is_charged_as_long_as_it_is_there(void **state)
{
    (void)state;
    struct tls_made made;
    struct amb_tls_context *server, *client;
    struct tls_two two;
    struct amb_heap_account small, large;
    tls_made_ends(&made, "broker.example", &server, &client);
    tls_two_make(&two, server, client, &wish);
    tls_two_shake(&two);
    amb_heap_init(&small, 1);
    amb_heap_init(&large, UINT64_C(1) << 20);
    assert_false(amb_tls_charge_heap(two.broker, &small));
    assert_int_equal(small.bytes, 0);
    assert_int_equal(small.refused, 1);
    assert_true(amb_tls_charge_heap(two.broker, &large));
    assert_true(large.bytes > 0);
    tls_two_fini(&two);
    assert_int_equal(large.bytes, 0);
    tls_made_ends_fini(&made, &server, &client);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_is_charged_as_long_as_it_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
