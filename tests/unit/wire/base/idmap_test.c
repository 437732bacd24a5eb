/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/idmap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ITEMS 1000u

static void what_was_put_is_found_by_its_number_until_it_is_removed(void **state)
{
    (void)state;
    static struct amb_idmap_node items[ITEMS];
    struct amb_idmap map = {0};
    assert_null(amb_idmap_find(&map, 1));
    for (uint64_t i = 0; i < ITEMS; i++) {
        assert_int_equal(amb_idmap_put(&map, &items[i], i << 20), AMB_OK);
    }
    for (uint64_t i = 0; i < ITEMS; i++) {
        assert_ptr_equal(amb_idmap_find(&map, i << 20), &items[i]);
        assert_null(amb_idmap_find(&map, (i << 20) + 1));
    }
    for (uint64_t i = 0; i < ITEMS; i += 2) {
        amb_idmap_remove(&map, &items[i]);
    }
    for (uint64_t i = 0; i < ITEMS; i++) {
        assert_ptr_equal(amb_idmap_find(&map, i << 20), i % 2 == 0 ? NULL : &items[i]);
    }
    assert_int_equal(map.count, ITEMS / 2);
    amb_idmap_fini(&map);
}

static void any_names_one_until_the_table_is_empty(void **state)
{
    (void)state;
    struct amb_idmap_node items[5];
    struct amb_idmap map = {0};
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(amb_idmap_put(&map, &items[i], i + 1), AMB_OK);
    }
    for (struct amb_idmap_node *node; (node = amb_idmap_any(&map)) != NULL;) {
        amb_idmap_remove(&map, node);
        sum += node->id;
    }
    assert_int_equal(sum, 15);
    assert_int_equal(map.count, 0);
    amb_idmap_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found_by_its_number_until_it_is_removed),
        cmocka_unit_test(any_names_one_until_the_table_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
