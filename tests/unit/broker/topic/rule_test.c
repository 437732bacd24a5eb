/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reload: topics go over to other rules with what they hold, by the order of the control thread.
 * A publisher on shard 0, the topic at home on shard 1, a reader there.
 */
#include "broker/config/config.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/rule.h"
#include "broker/topic/topic.h"
#include "broker/worker/shard_setup.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMORY                                                                                     \
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"

struct world {
    struct shard_harness h;
    struct shard_client *p, *reader;
    uint32_t topic;
    unsigned answers; /* of orders */
};

static void answered(void *owner, struct amb_order *order)
{
    (void)owner;
    ((struct world *)order->context)->answers++;
    amb_order_free(order);
}

static void begin(struct world *w, const char *rule)
{
    char text[512];
    memset(w, 0, sizeof(*w));
    (void)snprintf(text, sizeof(text), MEMORY "topics = ( { match = \"a\"; %s } );", rule);
    harness_init(&w->h, 2, text);
    w->p = shard_client_create(&w->h, 0, NULL);
    w->reader = shard_client_create(&w->h, 1, NULL);
    w->topic = harness_topic(&w->h, "a", 1);
    client_open_pub(w->p, 0, w->topic, true);
    harness_settle(&w->h);
}

static void end(struct world *w)
{
    harness_forget(&w->h);
    harness_fini(&w->h);
}

/* So many shards get the order, and answer it. */
static void reload_first(struct world *w, const char *rule, unsigned shards)
{
    char text[512];
    (void)snprintf(text, sizeof(text), MEMORY "topics = ( { match = \"a\"; %s } );", rule);
    struct amb_config_source source = {.dev = true, .text = text, .text_len = strlen(text)};
    struct amb_config *config = NULL;
    char error[AMB_CONFIG_ERROR_MAX] = "";
    if (amb_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("%s", error);
    }
    w->answers = 0;
    for (unsigned i = 0; i < shards; i++) {
        struct amb_order_config *order = amb_order_new(&amb_order_config, answered, w);
        assert_non_null(order);
        order->config = amb_config_ref(config);
        amb_order_post(w->h.peers[i], &order->order);
    }
    amb_config_destroy(&config); /* The shards and topics have references. */
    harness_settle(&w->h);
    (void)amb_inbox_run(&w->h.control);
    assert_int_equal(w->answers, shards);
    amb_topic_assert(harness_home(&w->h, w->topic));
}

static void reload(struct world *w, const char *rule)
{
    reload_first(w, rule, w->h.count);
}

static void publish(struct world *w, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        if (!client_may_send(w->p, 0, 1, 100)) {
            client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(1, 100));
            harness_settle(&w->h);
        }
        client_send(w->p, 0, 1, 100);
        harness_settle(&w->h);
    }
}

static uint64_t kept(struct world *w)
{
    const struct amb_log *log = &harness_home(&w->h, w->topic)->log;
    return log->hi - log->lo;
}

/* A reader that takes one message, and holds or does not. */
static void read_slowly(struct world *w, enum amb_slow slow)
{
    const struct amb_subscription_options options = {
        .slow = slow, .slow_block_ns = INT64_MAX, .credit_msgs = 1};
    const struct amb_begin from = {.start = AMB_START_NEW};
    client_subscribe_from(w->reader, 0, w->topic, &options, &from);
    harness_settle(&w->h);
}

static void test_smaller_logs_drop_their_oldest(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "full = \"drop-oldest\"; max_messages = 100;");
    read_slowly(&w, AMB_SLOW_BLOCK);
    publish(&w, 90);
    uint64_t dropped = harness_home(&w.h, w.topic)->counts.msgs_dropped;
    reload(&w, "full = \"drop-oldest\"; max_messages = 10;");
    assert_int_equal(kept(&w), 10);
    assert_int_equal(harness_home(&w.h, w.topic)->counts.msgs_dropped, dropped + 79);
    client_drain(w.reader, 0); /* It is told what it has lost. */
    assert_int_equal(w.reader->subs[0].msgs, 11);
    publish(&w, 20);
    assert_true(kept(&w) <= 10);
    end(&w);
}

static void test_smaller_logs_that_block_keep_what_is_held(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "max_messages = 100;");
    read_slowly(&w, AMB_SLOW_BLOCK);
    publish(&w, 50);
    uint64_t before = kept(&w);
    reload(&w, "max_messages = 10;");
    assert_int_equal(kept(&w), before);
    client_drain(w.reader, 0);
    assert_int_equal(w.reader->subs[0].msgs, 50);
    end(&w);
}

static void test_smaller_logs_drop_what_nobody_holds(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "max_messages = 100;");
    read_slowly(&w, AMB_SLOW_DROP_OLDEST);
    publish(&w, 50);
    reload(&w, "max_messages = 10;");
    assert_true(kept(&w) <= 10);
    end(&w);
}

static void test_thousands_of_messages_go_in_slices(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "retain = { messages = 2000; };");
    publish(&w, 2000);
    assert_int_equal(kept(&w), 2000);
    reload(&w, "retain = { messages = 5; };");
    assert_int_equal(kept(&w), 5);
    end(&w);
}

static void test_history_begins_and_ends(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "");
    publish(&w, 5);
    assert_int_equal(kept(&w), 0);
    reload(&w, "retain = { messages = 3; };");
    publish(&w, 5);
    assert_int_equal(kept(&w), 3);
    reload(&w, "retain = { messages = 2; };");
    assert_int_equal(kept(&w), 2);
    reload(&w, "");
    assert_int_equal(kept(&w), 0);
    end(&w);
}

static void test_history_may_become_too_old(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "retain = { messages = 10; };");
    publish(&w, 5);
    reload(&w, "retain = { messages = 10; age = \"1s\"; };");
    harness_pass(&w.h, 3 * AMB_NS_PER_SEC);
    harness_settle(&w.h);
    assert_int_equal(kept(&w), 0);
    end(&w);
}

static void test_messages_expire_that_come_from_then_on(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "");
    read_slowly(&w, AMB_SLOW_BLOCK);
    publish(&w, 3);
    reload(&w, "ttl = \"1s\";");
    assert_true(harness_home(&w.h, w.topic)->has_ttl);
    publish(&w, 5);
    harness_pass(&w.h, 2 * AMB_NS_PER_SEC);
    client_drain(w.reader, 0);
    assert_int_equal(w.reader->subs[0].msgs, 3);
    end(&w);
}

static void test_keys_count_from_then_on(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "");
    struct amb_topic *home = harness_home(&w.h, w.topic);
    assert_null(home->keys);
    reload(&w, "retain = { keys = 100; };");
    assert_non_null(home->keys);
    const struct amb_keys *keys = home->keys;
    reload(&w, "retain = { keys = 50; };");
    assert_ptr_equal(home->keys, keys); /* It keeps its messages. */
    reload(&w, "");
    assert_null(home->keys);
    end(&w);
}

static void test_a_rule_that_no_longer_matches_leaves_the_built_in_one(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "max_messages = 7;");
    struct amb_topic *home = harness_home(&w.h, w.topic);
    assert_int_equal(home->rule->max_messages, 7);
    struct amb_config_source source = {.dev = true};
    struct amb_config *config = NULL;
    assert_int_equal(amb_config_create(&source, NULL, 0, &config), AMB_OK);
    amb_topic_use_config(home, config);
    assert_int_equal(home->rule->max_messages, 0);
    assert_string_equal(home->rule->match, ">");
    amb_config_destroy(&config);
    end(&w);
}

static void test_a_thousand_reloads_leave_one_configuration(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "");
    for (unsigned i = 0; i < 1000; i++) {
        reload(&w, i % 2 == 0 ? "max_messages = 7; retain = { keys = 10; };" : "");
    }
    const struct amb_config *live = w.h.shards[1].live;
    assert_ptr_equal(harness_home(&w.h, w.topic)->config, live);
    assert_ptr_not_equal(live, w.h.config);
    end(&w);
}

/* Home lends history by the rule of before, and the borrower has the one in force already. */
static void test_a_reader_of_history_goes_by_the_rule_of_its_worker(void **state)
{
    (void)state;
    const struct amb_begin from = {.start = AMB_START_FIRST};
    const struct amb_subscription_options options = {
        .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1};
    struct world w;
    begin(&w, "retain = { messages = 10; };");
    publish(&w, 5);
    reload_first(&w, "retain = { messages = 20; };", 1);
    struct shard_client *far = shard_client_create(&w.h, 0, NULL);
    client_subscribe_from(far, 0, w.topic, &options, &from);
    harness_settle(&w.h);
    const struct amb_topic *shared = harness_topic_on(&w.h, w.topic, 0);
    assert_false(amb_list_is_empty(&shared->privates.all));
    const struct amb_topic *own =
        AMB_CONTAINER_OF(shared->privates.all.next, struct amb_topic, privates.node);
    assert_ptr_equal(own->config, w.h.shards[0].live);
    client_drain(far, 0);
    assert_int_equal(far->subs[0].msgs, 5);
    end(&w);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_smaller_logs_drop_their_oldest),
        T(test_smaller_logs_that_block_keep_what_is_held),
        T(test_smaller_logs_drop_what_nobody_holds),
        T(test_thousands_of_messages_go_in_slices),
        T(test_history_begins_and_ends),
        T(test_history_may_become_too_old),
        T(test_messages_expire_that_come_from_then_on),
        T(test_keys_count_from_then_on),
        T(test_a_rule_that_no_longer_matches_leaves_the_built_in_one),
        T(test_a_reader_of_history_goes_by_the_rule_of_its_worker),
        T(test_a_thousand_reloads_leave_one_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
