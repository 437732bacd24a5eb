/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/buffer.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_comes_back_is_given_out_next(void **state)
{
    (void)state;
    struct amb_buffers buffers;
    amb_buffers_init(&buffers, 1 << 20);
    void *a = amb_buffers_get(&buffers, 1000);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % AMB_BUFFER_ALIGN, 0);
    memset(a, 1, 1000);
    amb_buffers_put(&buffers, a, 1000);
    assert_int_equal(buffers.used, 0);
    assert_ptr_equal(amb_buffers_get(&buffers, 600), a);
    assert_int_equal(buffers.used, 1024);
    amb_buffers_put(&buffers, a, 600);
    amb_buffers_put(&buffers, NULL, 1);
    amb_buffers_fini(&buffers);
}

static void the_limit_holds_but_one_always_passes(void **state)
{
    (void)state;
    struct amb_buffers buffers;
    amb_buffers_init(&buffers, 4096);
    void *large = amb_buffers_get(&buffers, 10000);
    assert_non_null(large);
    assert_null(amb_buffers_get(&buffers, 1));
    amb_buffers_put(&buffers, large, 10000);
    void *a = amb_buffers_get(&buffers, 2048), *b = amb_buffers_get(&buffers, 2048);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(amb_buffers_get(&buffers, 1));
    amb_buffers_put(&buffers, a, 2048);
    amb_buffers_put(&buffers, b, 2048);
    assert_true(buffers.cached <= buffers.cached_max);
    assert_null(amb_buffers_get(&buffers, UINT64_MAX));
    amb_buffers_fini(&buffers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back_is_given_out_next),
        cmocka_unit_test(the_limit_holds_but_one_always_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
