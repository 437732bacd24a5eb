/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries: references, and the way home across shards.
 */
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(h, 3, NULL);
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

static struct amb_entry *make_root(struct amb_shard *shard, uint64_t len)
{
    struct amb_entry *entry = amb_pool_get(&shard->entries.pool);
    assert_non_null(entry);
    entry->refs = 1;
    entry->home = shard;
    entry->data_len = len;
    assert_int_equal(amb_bufpool_alloc(&shard->memory.bufpool, len, &entry->payload.buf), AMB_OK);
    amb_entry_in_buffer(entry, AMB_PAYLOAD_BUFFER);
    return entry;
}

static void test_at_home_the_last_reference_gives_the_buffer_back(void **state)
{
    struct shard_harness *h = *state;
    struct amb_entry *entry = make_root(&h->shards[0], 5000);
    amb_entry_ref(entry);
    amb_entry_unref(entry, &h->shards[0]);
    assert_true(harness_used(h) >= 5000);
    amb_entry_unref(entry, &h->shards[0]);
    assert_int_equal(harness_used(h), 0);
    assert_int_equal(h->shards[0].entries.pool.used, 0);
}

static void test_elsewhere_it_goes_home_by_mail(void **state)
{
    struct shard_harness *h = *state;
    struct amb_entry *entry = make_root(&h->shards[0], 100);
    amb_entry_unref(entry, &h->shards[2]);
    assert_true(harness_used(h) > 0);
    (void)harness_turn(h, 2);
    assert_true(harness_used(h) > 0);
    (void)harness_turn(h, 0);
    assert_int_equal(harness_used(h), 0);
}

static void test_a_shadow_drops_its_parent_when_it_is_home(void **state)
{
    struct shard_harness *h = *state;
    struct amb_entry *root = make_root(&h->shards[0], 100); /* held by its topic's shard, 1 */
    struct amb_entry *shadow = amb_pool_get(&h->shards[1].entries.pool);
    assert_non_null(shadow);
    shadow->refs = 1;
    shadow->home = &h->shards[1];
    shadow->parent = root;
    amb_entry_ref(root);
    amb_entry_unref(shadow, &h->shards[2]);
    amb_entry_unref(root, &h->shards[1]);
    assert_int_equal(root->refs, 1);
    (void)harness_turn(h, 1);
    assert_int_equal(h->shards[1].entries.pool.used, 0);
    assert_true(harness_used(h) > 0);
    (void)harness_turn(h, 0);
    assert_int_equal(harness_used(h), 0);
}

static void test_a_refused_entry_has_no_buffer(void **state)
{
    struct shard_harness *h = *state;
    struct amb_entry *entry = amb_pool_get(&h->shards[0].entries.pool);
    assert_non_null(entry);
    entry->refs = 1;
    entry->home = &h->shards[0];
    amb_entry_unref(entry, &h->shards[0]);
    assert_int_equal(h->shards[0].entries.pool.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_at_home_the_last_reference_gives_the_buffer_back),
        T(test_elsewhere_it_goes_home_by_mail),
        T(test_a_shadow_drops_its_parent_when_it_is_home),
        T(test_a_refused_entry_has_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
