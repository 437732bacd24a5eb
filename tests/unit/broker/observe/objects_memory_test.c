/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/observe/objects: the memory in use that it tells. Figures of objects: status_test.
 */
#include "broker/observe/objects.h"

#include "broker/count/counters.h"
#include "tests/support/shard/shard_pair.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct amb_subscription_options waits = {
    .credit_msgs = 1, .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX};

static struct amb_counters counters;

static int setup(void **state)
{
    const struct amb_counters_options options = {
        .why = "a test", .workers = 1, .objects = 64, .name = "", .version = "", .ucx = ""};
    struct shard_pair *pair = shard_pair_begin(1, NULL);
    client_open_pub(pair->p, 0, pair->topic, true);
    *state = pair;
    return amb_counters_create(&options, &counters) == AMB_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct shard_pair *pair = *state;
    amb_objects_end(&pair->h.shards[0]);
    int failed = shard_pair_teardown(state);
    amb_counters_destroy(&counters);
    return failed;
}

static uint64_t told(const struct amb_shard *shard)
{
    return amb_stat_get(&shard->stats->memory_used);
}

static void test_memory_in_use_is_told(void **state)
{
    struct shard_pair *pair = *state;
    struct amb_shard *shard = &pair->h.shards[0];
    shard->counters = &counters;
    client_subscribe(pair->s, 0, pair->topic, &waits);
    harness_settle(&pair->h);
    for (unsigned i = 0; i < 3; i++) {
        shard_pair_publish(pair, 4096);
    }
    uint64_t used = harness_used(&pair->h);
    assert_true(used >= UINT64_C(2) * 4096);
    harness_pass(&pair->h, AMB_NS_PER_SEC); /* A pass is due. */
    harness_settle(&pair->h);
    assert_int_equal(told(shard), used);
    client_drain(pair->s, 0);
    harness_settle(&pair->h);
    assert_int_equal(told(shard), used); /* Until the next pass, or a sleep. */
    (void)amb_objects_due(shard);
    assert_true(told(shard) < used);
    assert_int_equal(told(shard), harness_used(&pair->h));
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_in_use_is_told),
    };
    return cmocka_run_group_tests_name("broker/objects_memory", tests, NULL, NULL);
}
