/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int value;
    struct amb_list_node node;
};

static int value_of(struct amb_list_node *node)
{
    return AMB_CONTAINER_OF(node, struct item, node)->value;
}

static void items_come_out_in_the_order_of_the_list(void **state)
{
    (void)state;
    struct amb_list_node head;
    amb_list_init(&head);
    assert_true(amb_list_is_empty(&head));
    assert_null(amb_list_pop_front(&head));
    struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    amb_list_push_back(&head, &items[1].node);
    amb_list_push_back(&head, &items[3].node);
    amb_list_push_front(&head, &items[0].node);
    amb_list_insert_before(&items[3].node, &items[2].node);
    int expected = 0;
    AMB_LIST_FOR_EACH (node, &head) {
        assert_int_equal(value_of(node), expected++);
    }
    assert_int_equal(expected, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(value_of(amb_list_pop_front(&head)), i);
    }
    assert_true(amb_list_is_empty(&head));
}

static void the_current_node_may_be_removed_and_removing_twice_is_harmless(void **state)
{
    (void)state;
    struct amb_list_node head;
    amb_list_init(&head);
    struct item items[5];
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        amb_list_push_back(&head, &items[i].node);
    }
    AMB_LIST_FOR_EACH_SAFE (node, &head) {
        if (value_of(node) % 2 == 0) {
            amb_list_remove(node);
            amb_list_remove(node);
        }
    }
    assert_int_equal(value_of(amb_list_pop_front(&head)), 1);
    assert_int_equal(value_of(amb_list_pop_front(&head)), 3);
    assert_null(amb_list_pop_front(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_the_order_of_the_list),
        cmocka_unit_test(the_current_node_may_be_removed_and_removing_twice_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
