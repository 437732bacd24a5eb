/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of topics that a client is sent: charged to its session, kept while a frame reads them.
 */
#include "broker/session/session.h"
#include "broker/session/session_names.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HEAP 1000u

struct world {
    struct amb_heap_account heap;
    struct amb_session_names names;
};

static int setup(void **state)
{
    static struct world world;
    amb_heap_init(&world.heap, HEAP);
    amb_session_names_init(&world.names, &world.heap);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    const struct world *w = *state;
    return w->heap.bytes == 0 ? 0 : 1;
}

static void test_a_name_is_charged_until_it_is_dropped(void **state)
{
    struct world *w = *state;
    struct amb_session_name *name;
    assert_int_equal(amb_session_name_create(&w->names, "a.b", 3, &name), AMB_OK);
    assert_memory_equal(name->name, "a.b", 3);
    assert_true(w->heap.bytes > 3);
    amb_session_name_drop(&w->names, name);
    assert_int_equal(w->heap.bytes, 0);
}

static void test_a_name_that_a_frame_reads_stays_until_the_session_goes(void **state)
{
    struct world *w = *state;
    struct amb_session_name *name;
    assert_int_equal(amb_session_name_create(&w->names, "a.b", 3, &name), AMB_OK);
    name->naming = 1;
    amb_session_name_drop(&w->names, name);
    assert_memory_equal(name->name, "a.b", 3);
    assert_true(w->heap.bytes > 0);
    amb_session_names_fini(&w->names);
    assert_int_equal(w->heap.bytes, 0);
    assert_true(amb_list_is_empty(&w->names.kept));
}

static void test_a_full_heap_refuses_a_name(void **state)
{
    struct world *w = *state;
    struct amb_session_name *name = NULL;
    assert_true(amb_heap_charge(&w->heap, HEAP));
    assert_int_equal(amb_session_name_create(&w->names, "a.b", 3, &name), AMB_ELIMIT);
    assert_null(name);
    amb_heap_give(&w->heap, HEAP);
    assert_int_equal(w->heap.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_name_is_charged_until_it_is_dropped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_name_that_a_frame_reads_stays_until_the_session_goes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_heap_refuses_a_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
