/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of TLS: what they grow to, what is charged for them, and that bytes stay in order. */
#include "wire/tls/tls_buffer.h"

#include "tests/support/tls/tls_account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_memory_comes_with_the_first_bytes_and_grows_to_its_maximum(void **state)
{
    (void)state;
    struct tls_account account = {.limit = SIZE_MAX};
    struct amb_tls_charge charge = tls_account_charge(&account);
    struct amb_tls_buffer buffer = {.bytes = NULL};
    assert_true(amb_tls_buffer_reserve(&buffer, 1, &charge));
    assert_int_equal(buffer.cap, AMB_TLS_BUFFER_MIN);
    assert_true(amb_tls_buffer_reserve(&buffer, AMB_TLS_BUFFER_MIN + 1, &charge));
    assert_int_equal(buffer.cap, 4 * AMB_TLS_BUFFER_MIN);
    assert_int_equal(account.bytes, buffer.cap);
    assert_true(amb_tls_buffer_reserve(&buffer, AMB_TLS_BUFFER_MAX, &charge));
    assert_int_equal(buffer.cap, AMB_TLS_BUFFER_MAX);
    assert_false(amb_tls_buffer_reserve(&buffer, AMB_TLS_BUFFER_MAX + 1, &charge));
    amb_tls_buffer_release(&buffer, &charge);
    assert_null(buffer.bytes);
    assert_int_equal(account.bytes, 0);
    amb_tls_buffer_release(&buffer, &charge);
}

static void test_bytes_stay_in_order_however_room_is_made(void **state)
{
    (void)state;
    const struct amb_tls_charge none = {.take = NULL};
    struct amb_tls_buffer buffer = {.bytes = NULL};
    uint8_t in = 0, out = 0;
    for (unsigned round = 0; round < 2000; round++) {
        size_t more = (round * 7919u) % 1000u, less = (round * 104729u) % 1000u;
        if (amb_tls_buffer_reserve(&buffer, more, &none)) {
            for (size_t i = 0; i < more; i++) {
                buffer.bytes[buffer.end++] = in++;
            }
        }
        less = less < amb_tls_buffer_len(&buffer) ? less : amb_tls_buffer_len(&buffer);
        for (size_t i = 0; i < less; i++) {
            assert_int_equal(buffer.bytes[buffer.start + i], out++);
        }
        amb_tls_buffer_consume(&buffer, less);
    }
    amb_tls_buffer_release(&buffer, &none);
}

static void test_an_account_without_room_leaves_all_as_it_is(void **state)
{
    (void)state;
    struct tls_account account = {.limit = AMB_TLS_BUFFER_MIN};
    struct amb_tls_charge charge = tls_account_charge(&account);
    struct amb_tls_buffer buffer = {.bytes = NULL};
    assert_true(amb_tls_buffer_reserve(&buffer, 10, &charge));
    memcpy(buffer.bytes, "0123456789", 10);
    buffer.end = 10;
    assert_false(amb_tls_buffer_reserve(&buffer, AMB_TLS_BUFFER_MIN, &charge));
    assert_int_equal(buffer.cap, AMB_TLS_BUFFER_MIN);
    assert_memory_equal(buffer.bytes, "0123456789", 10);
    amb_tls_buffer_release(&buffer, &charge);
    assert_int_equal(account.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_comes_with_the_first_bytes_and_grows_to_its_maximum),
        cmocka_unit_test(test_bytes_stay_in_order_however_room_is_made),
        cmocka_unit_test(test_an_account_without_room_leaves_all_as_it_is),
    };
    return cmocka_run_group_tests_name("tls_buffer", tests, NULL, NULL);
}
