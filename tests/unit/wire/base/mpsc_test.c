/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/list.h"
#include "wire/base/mpsc.h"

#include <pthread.h>
#include <sched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PRODUCERS 2
#define ITEMS 20000

struct item {
    int producer, value;
    struct amb_mpsc_node node;
};

static struct item items[PRODUCERS][ITEMS];
static struct amb_mpsc stack;

static struct item *item_of(struct amb_mpsc_node *node)
{
    return AMB_CONTAINER_OF(node, struct item, node);
}

static void take_all_gives_everything_oldest_first(void **state)
{
    (void)state;
    amb_mpsc_init(&stack);
    assert_true(amb_mpsc_is_empty(&stack));
    assert_null(amb_mpsc_take_all(&stack));
    struct item three[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    assert_true(amb_mpsc_push(&stack, &three[0].node));
    assert_false(amb_mpsc_push(&stack, &three[1].node));
    assert_false(amb_mpsc_push(&stack, &three[2].node));
    assert_false(amb_mpsc_is_empty(&stack));
    int expected = 0;
    for (struct amb_mpsc_node *node = amb_mpsc_take_all(&stack); node != NULL; node = node->next) {
        assert_int_equal(item_of(node)->value, expected++);
    }
    assert_int_equal(expected, 3);
    assert_true(amb_mpsc_is_empty(&stack));
    assert_true(amb_mpsc_push(&stack, &three[0].node));
}

static void *produce(void *arg)
{
    struct item *mine = arg;
    for (int i = 0; i < ITEMS; i++) {
        (void)amb_mpsc_push(&stack, &mine[i].node);
    }
    return NULL;
}

static void two_producers_lose_nothing_and_keep_their_order(void **state)
{
    (void)state;
    amb_mpsc_init(&stack);
    pthread_t threads[PRODUCERS];
    for (int p = 0; p < PRODUCERS; p++) {
        for (int i = 0; i < ITEMS; i++) {
            items[p][i] = (struct item){.producer = p, .value = i};
        }
        assert_int_equal(pthread_create(&threads[p], NULL, produce, items[p]), 0);
    }
    int next[PRODUCERS] = {0};
    int wrong = 0;
    for (int left = PRODUCERS * ITEMS; left > 0;) {
        struct amb_mpsc_node *node = amb_mpsc_take_all(&stack);
        if (node == NULL) {
            (void)sched_yield();
        }
        for (; node != NULL; node = node->next, left--) {
            struct item *item = item_of(node);
            wrong += item->value != next[item->producer]++;
        }
    }
    for (int p = 0; p < PRODUCERS; p++) {
        assert_int_equal(pthread_join(threads[p], NULL), 0);
    }
    assert_int_equal(wrong, 0);
    assert_true(amb_mpsc_is_empty(&stack));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_all_gives_everything_oldest_first),
        cmocka_unit_test(two_producers_lose_nothing_and_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
