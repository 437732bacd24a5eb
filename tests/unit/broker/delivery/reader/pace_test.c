/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions with a pace of their own. A publisher on shard 0, topics at home on shard 1; `near`
 * maps there, `far` reads on shard 2 by copy.
 */
#include "broker/config/config.h"
#include "broker/delivery/reader/pace.h"
#include "broker/topic/begin.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "tests/support/shard/shard_trio.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"few\"; max_messages = 10; },\n"
    "           { match = \"kept\"; retain = { messages = 100; }; } );\n";

static int setup(void **state)
{
    return shard_trio_setup(state, rules);
}

static void begin(struct shard_trio *w, const char *name, const struct amb_pace_options *pace,
                  enum amb_slow slow)
{
    uint32_t topic = harness_topic(&w->h, name, 1);
    const struct amb_subscription_options options = {.slow = slow, .pace = *pace};
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->near, 0, topic, &options);
    client_subscribe(w->far, 0, topic, &options);
    harness_settle(&w->h);
}

/* In steps that a worker's sleep is shorter than. */
static void pass(struct shard_trio *w, int64_t ns)
{
    for (int64_t left_ns = ns; left_ns > 0; left_ns -= 10 * AMB_NS_PER_MS) {
        harness_pass(&w->h, left_ns < 10 * AMB_NS_PER_MS ? left_ns : 10 * AMB_NS_PER_MS);
        harness_settle(&w->h);
    }
}

static void expect_got(const struct shard_trio *w, uint64_t least, uint64_t most)
{
    assert_in_range(w->near->subs[0].msgs, least, most);
    assert_in_range(w->far->subs[0].msgs, least, most);
}

static void finish(struct shard_trio *w)
{
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_messages_come_no_faster_than_asked(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", &(struct amb_pace_options){.msgs = 100}, AMB_SLOW_DROP_OLDEST);
    client_send(w->p, 0, 200, 32);
    harness_settle(&w->h);
    expect_got(w, 1, 7); /* a burst */
    for (unsigned i = 0; i < 10; i++) {
        pass(w, 100 * AMB_NS_PER_MS);
    }
    expect_got(w, 95, 107);
    for (unsigned i = 0; i < 15; i++) {
        pass(w, 100 * AMB_NS_PER_MS);
    }
    expect_got(w, 200, 200);
    assert_int_equal(w->near->subs[0].lost + w->far->subs[0].lost, 0);
    finish(w);
}

static void test_bytes_come_no_faster_than_asked(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", &(struct amb_pace_options){.bytes = 10000}, AMB_SLOW_DROP_OLDEST);
    for (unsigned i = 0; i < 20; i++) {
        client_send(w->p, 0, 1, 1000);
        harness_settle(&w->h);
    }
    for (unsigned i = 0; i < 10; i++) {
        pass(w, 100 * AMB_NS_PER_MS);
    }
    expect_got(w, 10, 12);
    for (unsigned i = 0; i < 20; i++) {
        pass(w, 100 * AMB_NS_PER_MS);
    }
    expect_got(w, 20, 20);
    finish(w);
}

static void test_a_message_larger_than_its_share_comes_and_is_paid_for(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", &(struct amb_pace_options){.bytes = 1000}, AMB_SLOW_DROP_OLDEST);
    client_send(w->p, 0, 1, 3000);
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    expect_got(w, 1, 1);
    pass(w, 2 * AMB_NS_PER_SEC);
    expect_got(w, 1, 1);
    pass(w, 1100 * AMB_NS_PER_MS);
    expect_got(w, 2, 2);
    finish(w);
}

static void test_what_does_not_fit_its_pace_is_lost_as_its_policy_says(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "few", &(struct amb_pace_options){.msgs = 10}, AMB_SLOW_DROP_OLDEST);
    for (unsigned i = 0; i < 50; i++) {
        client_send(w->p, 0, 1, 32);
        harness_settle(&w->h);
    }
    for (unsigned i = 0; i < 40; i++) {
        pass(w, 100 * AMB_NS_PER_MS);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct client_sub *sub = i == 0 ? &w->near->subs[0] : &w->far->subs[0];
        assert_int_equal(sub->msgs + sub->lost, 50);
        assert_in_range(sub->msgs, 10, 13);
    }
    finish(w);
}

static void test_others_go_on_meanwhile(void **state)
{
    struct shard_trio *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 1);
    const struct amb_subscription_options slow = {.slow = AMB_SLOW_DROP_OLDEST,
                                                  .pace = {.msgs = 1}};
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->near, 0, topic, &slow);
    client_subscribe(w->near, 1, topic, NULL);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 100; i++) {
        client_send(w->p, 0, 10, 32);
        harness_settle(&w->h);
    }
    assert_int_equal(w->near->subs[1].msgs, 1000);
    assert_in_range(w->near->subs[0].msgs, 1, 2);
    client_drain(w->near, 0);
    client_drain(w->near, 1);
    client_unsubscribe(w->near, 0); /* while it waits */
    harness_settle(&w->h);
    pass(w, 5 * AMB_NS_PER_SEC);
}

static void test_history_comes_as_it_came(void **state)
{
    struct shard_trio *w = *state;
    uint32_t topic = harness_topic(&w->h, "kept", 1);
    client_open_pub(w->p, 0, topic, false);
    for (unsigned i = 0; i < 4; i++) {
        client_send(w->p, 0, 1, 32);
        harness_settle(&w->h);
        harness_pass(&w->h, AMB_NS_PER_SEC);
    }
    const struct amb_subscription_options options = {.slow = AMB_SLOW_DROP_OLDEST,
                                                     .pace = {.is_original = true}};
    const struct amb_begin first = {.start = AMB_START_FIRST};
    client_subscribe_from(w->near, 0, topic, &options, &first);
    client_subscribe_from(w->far, 0, topic, &options, &first);
    harness_settle(&w->h);
    for (unsigned got = 1; got <= 4; got++) {
        expect_got(w, got, got);
        pass(w, AMB_NS_PER_SEC + AMB_NS_PER_MS);
    }
    /* New messages come as late as the rest. */
    client_send(w->p, 0, 1, 32);
    harness_settle(&w->h);
    expect_got(w, 4, 4);
    pass(w, 5 * AMB_NS_PER_SEC);
    expect_got(w, 5, 5);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    amb_topic_forget(harness_home(&w->h, topic), UINT64_MAX);
    harness_settle(&w->h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_trio_teardown)
        T(test_messages_come_no_faster_than_asked),
        T(test_bytes_come_no_faster_than_asked),
        T(test_a_message_larger_than_its_share_comes_and_is_paid_for),
        T(test_what_does_not_fit_its_pace_is_lost_as_its_policy_says),
        T(test_others_go_on_meanwhile),
        T(test_history_comes_as_it_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
