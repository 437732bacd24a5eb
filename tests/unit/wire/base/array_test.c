/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that double. */
#include "wire/base/array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void test_it_doubles_and_keeps_what_it_has(void **state)
{
    (void)state;
    uint64_t *all = NULL;
    uint32_t room = 0;
    unsigned moves = 0;
    for (uint32_t count = 0; count < 100; count++) {
        uint32_t before = room;
        uint64_t *reached = amb_array_reach(all, count, &room, 8, sizeof(*all));
        assert_non_null(reached);
        assert_true(count < room);
        moves += room != before;
        all = reached;
        all[count] = count;
    }
    assert_int_equal(room, 128);
    assert_int_equal(moves, 5); /* 8, 16, 32, 64, 128 */
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(all[i], i);
    }
    free(all);
}

static bool is_out_of_memory;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
    return is_out_of_memory ? NULL : __real_realloc(old, size);
}

static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    uint32_t room = 0;
    uint64_t *all = amb_array_reach(NULL, 0, &room, 2, sizeof(*all));
    assert_non_null(all);
    all[0] = 7;
    uint64_t *const volatile kept = all; /* The compiler believes that a realloc has freed it. */
    is_out_of_memory = true;
    assert_null(amb_array_reach(all, 2, &room, 2, sizeof(*all)));
    is_out_of_memory = false;
    assert_int_equal(room, 2);
    assert_int_equal(kept[0], 7);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_doubles_and_keeps_what_it_has),
        cmocka_unit_test(test_without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
