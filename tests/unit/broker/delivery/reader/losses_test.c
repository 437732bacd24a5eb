/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses of a subscription are in the counters while it waits, once it reads on, and after its
 * end. Each reason has its number.
 */
#include "broker/delivery/reader/losses.h"

#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/slow.h"
#include "broker/session/session.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DAY_NS (INT64_C(1000000000) * AMB_NS_PER_SEC)

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"few\"; max_messages = 10; },\n"
    "           { match = \"soon\"; ttl = \"1s\"; } );\n";

struct world {
    struct shard_harness h;
    struct amb_counters counters;
    struct amb_counters_image image;
    struct shard_client *p, *s;
};

static void noted(struct amb_shard *shard, const struct amb_note *note)
{
    (void)shard;
    (void)note;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 1,
                                                 .objects = 8,
                                                 .losses = 4,
                                                 .name = "",
                                                 .version = "",
                                                 .ucx = ""};
    assert_int_equal(amb_counters_create(&options, &w->counters), AMB_OK);
    amb_counters_view(&w->counters, &w->image);
    harness_init(&w->h, 1, rules);
    w->h.upcalls.noted = noted;
    w->h.real_ahead_ns = DAY_NS;
    w->h.shards[0].counters = &w->counters;
    amb_loss_book_init(&w->h.shards[0].losses, &w->counters, 0, 1);
    w->p = shard_client_create(&w->h, 0, NULL);
    w->s = shard_client_create(&w->h, 0, NULL);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    amb_counters_destroy(&w->counters);
    free(w);
    return 0;
}

static uint32_t begin(struct world *w, const char *name)
{
    uint32_t topic = harness_topic(&w->h, name, 0);
    const struct amb_subscription_options options = {.slow = AMB_SLOW_DROP_OLDEST,
                                                     .credit_msgs = 1};
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->s, 0, topic, &options);
    harness_settle(&w->h);
    return topic;
}

static void publish(struct world *w, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, 1, 32);
        harness_settle(&w->h);
    }
}

static void pass(struct world *w)
{
    for (unsigned i = 0; i < 2; i++) {
        harness_pass(&w->h, AMB_SLOW_TICK_NS + 1);
        harness_settle(&w->h);
    }
}

/* The only record of that reason. False: there is none. */
static bool find(const struct world *w, const char *reason, struct amb_loss_words *out)
{
    unsigned found = 0;
    for (uint32_t slot = 0; slot < amb_counters_slots(&w->image, AMB_COUNTERS_LOSS); slot++) {
        uint64_t words[AMB_TEXTS_WORDS];
        if (amb_counters_texts(&w->image, AMB_COUNTERS_LOSS, slot, words) &&
            strcmp(amb_counters_text(words, 2), reason) == 0) {
            memcpy(out, words + AMB_SLOT_FIGURES, sizeof(*out));
            found++;
        }
    }
    assert_true(found <= 1);
    return found == 1;
}

static void test_a_reader_that_stands_still_has_a_record(void **state)
{
    struct world *w = *state;
    struct amb_loss_words loss;
    begin(w, "few");
    publish(w, 11);
    pass(w);
    assert_false(find(w, "slow", &loss));
    publish(w, 20); /* One is out, ten are kept. */
    pass(w);
    assert_true(find(w, "slow", &loss));
    assert_int_equal(loss.messages, 20);
    assert_int_equal(loss.client, w->s->id);
    assert_int_equal(loss.subscription, w->h.shards[0].losses.records[0].words.subscription);
    assert_true(loss.first_s >= DAY_NS / AMB_NS_PER_SEC && loss.last_s == loss.first_s);
    harness_pass(&w->h, 7 * AMB_NS_PER_SEC);
    publish(w, 5);
    pass(w);
    uint64_t first_s = loss.first_s;
    assert_true(find(w, "slow", &loss));
    assert_int_equal(loss.messages, 25);
    assert_int_equal(loss.first_s, first_s);
    assert_true(loss.last_s >= first_s + 7);
    client_drain(w->s, 0);
    pass(w);
    assert_int_equal(w->s->subs[0].lost, 25);
    assert_true(find(w, "slow", &loss));
    assert_int_equal(loss.messages, 25); /* Told of now, and not counted twice. */
}

/* It lost all of that since the last look. */
static void test_the_end_of_a_subscription_is_a_look(void **state)
{
    struct world *w = *state;
    struct amb_loss_words loss;
    begin(w, "few");
    publish(w, 31);
    client_close(w->s, false);
    harness_settle(&w->h);
    assert_true(find(w, "slow", &loss));
    assert_int_equal(loss.messages, 20);
    assert_int_equal(loss.client, w->s->id);
    assert_false(amb_list_is_empty(&w->h.shards[0].losses.ended));
}

static void test_each_reason_has_a_record(void **state)
{
    struct world *w = *state;
    struct amb_loss_words loss;
    begin(w, "soon");
    publish(w, 4); /* One is out. */
    harness_pass(&w->h, 2 * AMB_NS_PER_SEC);
    publish(w, 1);
    client_drain(w->s, 0);
    pass(w);
    assert_true(find(w, "expired", &loss));
    assert_int_equal(loss.messages, 3);
    assert_false(find(w, "slow", &loss));
}

/* Of more subscriptions than there are records: the first that ended goes. */
static void test_records_are_bounded(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "few", 0);
    const struct amb_subscription_options options = {.slow = AMB_SLOW_DROP_OLDEST,
                                                     .credit_msgs = 1};
    client_open_pub(w->p, 0, topic, false);
    for (unsigned i = 0; i < 10; i++) {
        struct shard_client *reader = shard_client_create(&w->h, 0, NULL);
        client_subscribe(reader, 0, topic, &options);
        harness_settle(&w->h);
        publish(w, 31);
        client_close(reader, false);
        harness_settle(&w->h);
    }
    unsigned there = 0;
    for (uint32_t slot = 0; slot < 4; slot++) {
        uint64_t words[AMB_TEXTS_WORDS];
        there += amb_counters_texts(&w->image, AMB_COUNTERS_LOSS, slot, words);
    }
    assert_int_equal(there, 4);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->losses_forgotten), 6);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_reader_that_stands_still_has_a_record),
        T(test_the_end_of_a_subscription_is_a_look),
        T(test_each_reason_has_a_record),
        T(test_records_are_bounded),
    };
    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}
