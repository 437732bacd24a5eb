/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a topic whose readers are on several workers. Each looks at what it has itself.
 */
#include "broker/observe/objects.h"

#include "broker/count/counters.h"
#include "broker/count/figures.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n";

static struct amb_counters counters;

static int setup(void **state)
{
    const struct amb_counters_options options = {
        .why = "a test", .workers = 3, .objects = 64, .name = "a", .version = "1", .ucx = "off"};
    if (shard_trio_setup(state, config) != 0 ||
        amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    struct shard_trio *w = *state;
    for (unsigned i = 0; i < w->h.count; i++) {
        w->h.shards[i].counters = &counters;
    }
    return 0;
}

static int teardown(void **state)
{
    int status = shard_trio_teardown(state);
    amb_counters_destroy(&counters);
    return status;
}

static void read_with(struct shard_client *client, uint32_t topic, uint32_t credit)
{
    const struct amb_subscription_options options = {.credit_msgs = credit,
                                                     .slow = AMB_SLOW_DROP_OLDEST};
    client_subscribe(client, 0, topic, &options);
    harness_settle(client->harness);
}

/* A pass of each worker; home's is the first one, so it sees theirs in the second. */
static struct amb_topic_numbers look(struct shard_trio *w, uint32_t topic)
{
    struct amb_topic_numbers numbers;
    uint64_t words[sizeof(numbers) / sizeof(uint64_t)];
    for (unsigned i = 0; i < 2 * w->h.count; i++) {
        struct amb_shard *shard = &w->h.shards[i % w->h.count];
        shard->observe.pass_due_ns = shard->now_ns;
        amb_objects_turn(shard);
        harness_settle(&w->h);
    }
    uint32_t slot = harness_home(&w->h, topic)->counters_slot;
    assert_int_not_equal(slot, 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        words[i] = atomic_load(&counters.numbers[slot - 1].words[AMB_SLOT_FIGURES + i]);
    }
    memcpy(&numbers, words, sizeof(numbers));
    return numbers;
}

/* Home's own log is trimmed when all has been lent. */
static void test_a_log_that_lies_with_another_worker_counts(void **state)
{
    struct shard_trio *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 0);
    client_open_pub(w->p, 0, topic, false);
    read_with(w->near, topic, 1);
    read_with(w->far, topic, 3);
    for (unsigned i = 0; i < 10; i++) {
        client_send(w->p, 0, 1, 500);
        harness_settle(&w->h);
    }
    assert_int_equal(harness_home(&w->h, topic)->log.msgs, 0);
    struct amb_topic_numbers numbers = look(w, topic);
    assert_int_equal(numbers.log_messages, 9); /* They have the same ones; near has the most. */
    assert_in_range(numbers.log_bytes, 9 * 500, 9 * 2000);
    client_drain(w->near, 0);
    assert_int_equal(look(w, topic).log_messages, 7);
    client_drain(w->far, 0);
    numbers = look(w, topic);
    assert_int_equal(numbers.log_messages, 0);
    assert_int_equal(numbers.log_bytes, 0);
}

/* It lies at home, and there. */
static void test_a_message_of_two_workers_counts_once(void **state)
{
    struct shard_trio *w = *state;
    struct shard_client *reader = shard_client_create(&w->h, 0, NULL);
    uint32_t topic = harness_topic(&w->h, "a", 0);
    client_open_pub(w->p, 0, topic, false);
    read_with(reader, topic, 4);
    read_with(w->far, topic, 1);
    for (unsigned i = 0; i < 10; i++) {
        client_send(w->p, 0, 1, 500);
        harness_settle(&w->h);
    }
    assert_int_equal(harness_home(&w->h, topic)->log.msgs, 6);
    assert_int_equal(look(w, topic).log_messages, 9);
    client_drain(w->far, 0);
    assert_int_equal(look(w, topic).log_messages, 6);
    client_drain(reader, 0);
    assert_int_equal(look(w, topic).log_messages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_log_that_lies_with_another_worker_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_message_of_two_workers_counts_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
