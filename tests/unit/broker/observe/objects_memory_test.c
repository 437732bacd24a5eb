/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/observe/objects: the memory in use that it tells, and the work of one turn. Figures of
 * objects: status_test.
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

#define BATCHES 300u
#define READERS (2 * CLIENT_HANDLES)

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

/* Readers whose figures have a slot. */
static unsigned listed(const struct amb_session *session)
{
    unsigned count = 0;
    AMB_LIST_FOR_EACH (node, &session->subscription_list) {
        count += AMB_CONTAINER_OF(node, struct amb_subscription, node)->counters_slot != 0;
    }
    return count;
}

/* Beside GPU memory each entry that waits for a reader is looked at: that is work, too. */
static void test_entries_that_are_looked_at_are_work_of_a_turn(void **state)
{
    struct shard_pair *pair = *state;
    struct amb_shard *shard = &pair->h.shards[0];
    struct shard_client *other = shard_client_create(&pair->h, 0, NULL);
    char device;
    unsigned turns = 0, readers = 0, most = 0;
    for (uint32_t i = 0; i < READERS; i++) {
        client_subscribe(i % 2 == 0 ? pair->s : other, i / 2, pair->topic, &waits);
    }
    harness_settle(&pair->h);
    for (unsigned i = 0; i < BATCHES; i++) {
        shard_pair_publish(pair, 16);
    }
    shard->counters = &counters;
    shard->memory.gpus = (struct amb_gpus *)(void *)&device; /* There are some. */
    amb_objects_moved(shard);
    while (readers < READERS && turns < 10) {
        harness_pass(&pair->h, AMB_NS_PER_SEC); /* The next part is due. */
        shard->now_ns = pair->h.now_ns;
        amb_objects_turn(shard);
        unsigned now = listed(pair->s->session) + listed(other->session);
        most = now - readers > most ? now - readers : most;
        readers = now;
        turns++;
    }
    shard->memory.gpus = NULL;
    assert_int_equal(readers, READERS);
    assert_in_range(turns, 2, 4);
    assert_true(most < READERS);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_in_use_is_told),
        T(test_entries_that_are_looked_at_are_work_of_a_turn),
    };
    return cmocka_run_group_tests_name("broker/objects_memory", tests, NULL, NULL);
}
