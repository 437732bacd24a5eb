/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/spsc.h"

#include <pthread.h>
#include <sched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ITEMS UINT64_C(100000)

static void a_queue_holds_its_capacity_in_order(void **state)
{
    (void)state;
    struct amb_spsc queue;
    assert_int_equal(amb_spsc_init(&queue, 4), AMB_OK);
    int items[4];
    for (int round = 0; round < 3; round++) {
        assert_true(amb_spsc_is_empty(&queue));
        assert_null(amb_spsc_pop(&queue));
        for (int i = 0; i < 4; i++) {
            assert_true(amb_spsc_push(&queue, &items[i]));
        }
        assert_false(amb_spsc_is_empty(&queue));
        assert_false(amb_spsc_push(&queue, &items[0]));
        assert_ptr_equal(amb_spsc_pop(&queue), &items[0]);
        assert_true(amb_spsc_push(&queue, &items[0]));
        for (int i = 1; i < 5; i++) {
            assert_ptr_equal(amb_spsc_pop(&queue), &items[i % 4]);
        }
    }
    amb_spsc_fini(&queue);
    amb_spsc_fini(&queue);
}

static void a_queue_of_one_works(void **state)
{
    (void)state;
    struct amb_spsc queue;
    assert_int_equal(amb_spsc_init(&queue, 1), AMB_OK);
    int item;
    assert_true(amb_spsc_push(&queue, &item));
    assert_false(amb_spsc_push(&queue, &item));
    assert_ptr_equal(amb_spsc_pop(&queue), &item);
    assert_null(amb_spsc_pop(&queue));
    amb_spsc_fini(&queue);
}

/* What an item points to must be visible to the consumer, not only the pointer. */
static uint64_t payloads[256];

static void *produce(void *arg)
{
    struct amb_spsc *queue = arg;
    for (uint64_t i = 0; i < ITEMS; i++) {
        /* The queue holds 64: a payload is written again only after it was popped and checked. */
        payloads[i % 256] = i;
        while (!amb_spsc_push(queue, &payloads[i % 256])) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void two_threads_pass_every_item_once_and_in_order(void **state)
{
    (void)state;
    struct amb_spsc queue;
    assert_int_equal(amb_spsc_init(&queue, 64), AMB_OK);
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &queue), 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < ITEMS;) {
        uint64_t *item = amb_spsc_pop(&queue);
        if (item == NULL) {
            (void)sched_yield();
            continue;
        }
        wrong += *item != i;
        i++;
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_int_equal(wrong, 0);
    assert_true(amb_spsc_is_empty(&queue));
    amb_spsc_fini(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_holds_its_capacity_in_order),
        cmocka_unit_test(a_queue_of_one_works),
        cmocka_unit_test(two_threads_pass_every_item_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
