/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/pool.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void objects_are_zeroed_and_aligned(void **state)
{
    (void)state;
    struct amb_pool pool;
    amb_pool_init(&pool, 100, 3, 0);
    assert_int_equal(pool.object_size, 128);
    assert_int_equal(pool.total, 0);
    unsigned char zero[128] = {0};
    void *objects[10];
    for (size_t i = 0; i < 10; i++) {
        objects[i] = amb_pool_get(&pool);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 64, 0);
        assert_memory_equal(objects[i], zero, 128);
        memset(objects[i], 0xff, 128);
    }
    assert_int_equal(pool.used, 10);
    assert_int_equal(pool.total, 12);
    for (size_t i = 0; i < 10; i++) {
        amb_pool_put(&pool, objects[i]);
    }
    assert_int_equal(pool.used, 0);
    void *again = amb_pool_get(&pool);
    assert_ptr_equal(again, objects[9]);
    assert_memory_equal(again, zero, 128);
    assert_int_equal(pool.total, 12);
    amb_pool_fini(&pool);
    amb_pool_fini(&pool);
}

static void the_maximum_holds_and_returns_make_room(void **state)
{
    (void)state;
    struct amb_pool pool;
    amb_pool_init(&pool, 1, 4, 6);
    void *objects[6];
    for (size_t i = 0; i < 6; i++) {
        objects[i] = amb_pool_get(&pool);
        assert_non_null(objects[i]);
    }
    assert_null(amb_pool_get(&pool));
    assert_int_equal(pool.total, 6);
    amb_pool_put(&pool, NULL);
    assert_null(amb_pool_get(&pool));
    amb_pool_put(&pool, objects[2]);
    assert_ptr_equal(amb_pool_get(&pool), objects[2]);
    amb_pool_fini(&pool);
}

static void a_chunk_that_cannot_be_allocated_is_no_object(void **state)
{
    (void)state;
    struct amb_pool pool;
    amb_pool_init(&pool, 4096, SIZE_MAX / 2, 0);
    assert_null(amb_pool_get(&pool));
    amb_pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_zeroed_and_aligned),
        cmocka_unit_test(the_maximum_holds_and_returns_make_room),
        cmocka_unit_test(a_chunk_that_cannot_be_allocated_is_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
