/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest message of each key. A publisher on shard 0, topics at home on shard 1; `near` maps
 * there, `far` reads on shard 2 by copy.
 */
#include "broker/topic/begin.h"
#include "broker/topic/log/keys.h"
#include "broker/worker/orders_topic.h"

#include "broker/config/config.h"
#include "broker/topic/rule.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_queue.h"
#include "wire/base/clock.h"
#include "wire/codec/props.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"keys\"; retain = { keys = 100; }; },\n"
    "           { match = \"many\"; retain = { keys = 4096; }; },\n"
    "           { match = \"few\"; retain = { keys = 3; }; },\n"
    "           { match = \"small\"; max_bytes = \"64K\"; retain = { keys = 100; }; },\n"
    "           { match = \"both\"; retain = { keys = 100; messages = 4; }; },\n"
    "           { match = \"short\"; ttl = \"1s\"; retain = { keys = 100; }; } );\n";

struct world {
    struct shard_harness h;
    struct shard_client *p, *near, *far;
    uint32_t topic;
    char got[2][4096]; /* keys, as they came to near and far; '-' without one */
};

static void note_key(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                     const struct client_stamp *stamp)
{
    char *got = client->user;
    size_t len = strlen(got);
    assert_int_equal(frame->seq + index, stamp->number);
    assert_true(len + 1 < 4096);
    got[len] = stamp->handle == 0 ? '-' : (char)stamp->handle;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 3, rules);
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    w->p = shard_client_create(&w->h, 0, NULL);
    w->near = shard_client_create(&w->h, 1, &maps);
    w->far = shard_client_create(&w->h, 2, NULL);
    w->near->on_message = w->far->on_message = note_key;
    w->near->user = w->got[0];
    w->far->user = w->got[1];
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < w->h.client_count; i++) {
        shard_client_destroy(&w->h.clients[i]);
    }
    harness_settle(&w->h);
    for (unsigned i = 0; i < w->h.count; i++) {
        amb_topic_clear(harness_topic_on(&w->h, w->topic, i));
    }
    harness_settle(&w->h);
    harness_fini(&w->h);
    free(w);
    return 0;
}

static struct amb_topic *begin(struct world *w, const char *name)
{
    w->topic = harness_topic(&w->h, name, 1);
    client_open_pub(w->p, 0, w->topic, false);
    harness_settle(&w->h);
    return harness_home(&w->h, w->topic);
}

/* One batch; the i-th message has the i-th letter as its key, but for '-'; len: of payloads. */
static void publish(struct world *w, const char *letters, uint32_t len)
{
    struct client_pub *pub = &w->p->pubs[0];
    uint32_t count = (uint32_t)strlen(letters);
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .seq = ++pub->batches,
        .count = count,
        .data_len = (uint64_t)count * len,
        .meta_len = count * (uint32_t)sizeof(struct amb_record),
    };
    uint8_t *body = calloc(1, frame.data_len + frame.meta_len + (size_t)count * 16);
    assert_non_null(body);
    uint8_t *blobs = body + frame.data_len + frame.meta_len;
    for (uint32_t i = 0; i < count; i++) {
        struct client_stamp stamp = {.number = ++pub->messages,
                                     .handle = letters[i] == '-' ? 0 : (uint32_t)letters[i]};
        struct amb_record record = {.len = len};
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, blobs, 16);
        if (letters[i] != '-') {
            assert_int_equal(amb_props_add(&writer, AMB_PROP_KEY, letters + i, 1), AMB_OK);
            record.key_hash = 7u + (uint32_t)letters[i] % 2; /* they share buckets and hashes */
        }
        record.props_len = (uint16_t)writer.len;
        blobs += amb_props_padded(record.props_len);
        frame.meta_len += amb_props_padded(record.props_len);
        memcpy(body + (size_t)i * len, &stamp, sizeof(stamp));
        memcpy(body + (size_t)count * len + i * sizeof(record), &record, sizeof(record));
    }
    pub->bytes += frame.data_len + frame.meta_len;
    client_send_body(w->p, &frame, body);
    harness_settle(&w->h);
    free(body);
}

/* One batch of messages with keys of their own, counted from `first`, whose publisher says that all
 * have the same hash. */
static void publish_collisions(struct world *w, uint32_t first, uint32_t count)
{
    struct client_pub *pub = &w->p->pubs[0];
    struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                              .seq = ++pub->batches,
                              .count = count,
                              .data_len = (uint64_t)count * 16,
                              .meta_len = count * (uint32_t)sizeof(struct amb_record)};
    uint8_t *body = calloc(1, frame.data_len + frame.meta_len + (size_t)count * 32);
    assert_non_null(body);
    struct amb_record *records = (struct amb_record *)(void *)(body + frame.data_len);
    uint8_t *blobs = body + frame.data_len + frame.meta_len;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = first + i;
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, blobs, 32);
        assert_int_equal(amb_props_add(&writer, AMB_PROP_KEY, &key, sizeof(key)), AMB_OK);
        records[i] =
            (struct amb_record){.len = 16, .key_hash = 7, .props_len = (uint16_t)writer.len};
        blobs += amb_props_padded(records[i].props_len);
        frame.meta_len += amb_props_padded(records[i].props_len);
    }
    pub->messages += count;
    pub->bytes += frame.data_len + frame.meta_len;
    client_send_body(w->p, &frame, body);
    harness_settle(&w->h);
    free(body);
}

static void subscribe_last(struct world *w, uint64_t credit)
{
    const struct amb_begin last = {.start = AMB_START_LAST};
    const struct amb_subscription_options options = {
        .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = credit};
    client_subscribe_from(w->near, 0, w->topic, &options, &last);
    client_subscribe_from(w->far, 0, w->topic, &options, &last);
    harness_settle(&w->h);
}

static void release(struct world *w)
{
    client_release_all(w->near, 0);
    client_release_all(w->far, 0);
    harness_settle(&w->h);
}

static void expect_got(struct world *w, const char *letters, uint64_t lost)
{
    assert_string_equal(w->got[0], letters);
    assert_string_equal(w->got[1], letters);
    assert_int_equal(w->near->subs[0].lost, lost);
    assert_int_equal(w->far->subs[0].lost, lost);
}

static void test_last_is_the_newest_of_each_key_then_what_comes(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "keys");
    publish(w, "abcab", 32);
    publish(w, "d-a", 32);
    assert_int_equal(amb_keys_count(home->keys), 4);
    assert_int_equal(home->log.hi, home->log.lo); /* nothing else is kept */
    subscribe_last(w, 100);
    expect_got(w, "cbda", 0);
    publish(w, "ea", 32);
    expect_got(w, "cbdaea", 0);
    release(w);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_it_comes_at_the_readers_pace_and_before_what_is_new(void **state)
{
    struct world *w = *state;
    begin(w, "keys");
    publish(w, "abc", 32);
    subscribe_last(w, 1);
    expect_got(w, "a", 0);
    publish(w, "d", 32);
    publish(w, "a", 32);
    expect_got(w, "a", 0);
    for (unsigned i = 0; i < 4; i++) {
        release(w);
    }
    expect_got(w, "abcda", 0);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_a_reader_that_leaves_in_the_middle_holds_nothing(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "keys");
    publish(w, "abcdef", 32);
    subscribe_last(w, 1);
    client_unsubscribe(w->near, 0);
    client_unsubscribe(w->far, 0);
    release(w);
    amb_topic_clear(home);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_what_gets_a_newer_message_meanwhile_comes_once(void **state)
{
    struct world *w = *state;
    begin(w, "keys");
    publish(w, "abc", 32);
    subscribe_last(w, 1);
    expect_got(w, "a", 0);
    publish(w, "b", 32);
    for (unsigned i = 0; i < 4; i++) {
        release(w);
    }
    expect_got(w, "acb", 0);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

/* More than AMB_PRELUDE_SLICE of them. */
static void test_all_keys_come(void **state)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    begin(*state, "keys");
    for (uint64_t credit = 1; credit <= 100; credit += 9) {
        struct world *w = *state;
        publish(w, letters, 32);
        publish(w, letters, 32);
        subscribe_last(w, credit);
        client_drain(w->near, 0);
        client_drain(w->far, 0);
        expect_got(w, letters, 0);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
        begin(*state, "keys");
    }
}

/* Each reader comes to a new generation of messages, and takes one of them. */
static void test_readers_that_stand_still_keep_nothing(void **state)
{
    enum {
        READERS = 6,
        LEN = 16 << 10
    };
    struct world *w = *state;
    const struct amb_begin last = {.start = AMB_START_LAST};
    const struct amb_subscription_options options = {.slow = AMB_SLOW_DROP_OLDEST,
                                                     .credit_msgs = 1};
    begin(w, "small");
    for (uint32_t i = 0; i < READERS; i++) {
        for (unsigned k = 0; k < 14; k++) {
            publish(w, (const char[]){(char)('a' + k), '\0'}, LEN);
        }
        client_subscribe_from(w->near, i, w->topic, &options, &last);
        client_subscribe_from(w->far, i, w->topic, &options, &last);
        harness_settle(&w->h);
    }
    /* The log, what its keys keep beside it, and one message for each reader that maps. */
    assert_in_range(harness_used(&w->h), 64 << 10, (64 << 10) + (64 << 10) + READERS * 2 * LEN);
    for (uint32_t i = 0; i < READERS; i++) {
        client_drain(w->near, i);
        client_drain(w->far, i);
    }
}

/* One on the topic's shard and one elsewhere, whose members come later. */
static void test_a_queue_that_starts_at_last_gets_the_newest_of_each_key(void **state)
{
    struct world *w = *state;
    begin(w, "keys");
    publish(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 32);
    const struct amb_subscription_options options = {.credit_msgs = 2};
    struct harness_queue queues[2];
    struct shard_client *members[] = {w->near, w->far};
    for (unsigned i = 0; i < 2; i++) {
        harness_queue_open(&w->h, 1 + i, NULL, &queues[i]);
        queues[i].begin = (struct amb_begin){.start = AMB_START_LAST};
        harness_queue_read(&queues[i], w->topic);
    }
    publish(w, "b", 32);
    for (unsigned i = 0; i < 2; i++) {
        client_join(members[i], 0, &queues[i], &options);
        harness_settle(&w->h);
        for (uint64_t number = 1; number <= members[i]->subs[0].last; number++) {
            client_ack(members[i], 0, number);
            client_release(members[i], 0, number);
            harness_settle(&w->h);
        }
        assert_string_equal(w->got[i], "acdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZb");
        assert_int_equal(members[i]->subs[0].lost, 0);
        harness_queue_close(&queues[i]);
    }
}

/* At any moment of its question, to which the answer then comes. */
static void test_a_reader_that_leaves_while_it_asks(void **state)
{
    begin(*state, "keys");
    for (unsigned turns = 0; turns < 40; turns++) {
        struct world *w = *state;
        struct amb_topic *home = harness_home(&w->h, w->topic);
        publish(w, "abcdef", 32);
        const struct amb_begin last = {.start = AMB_START_LAST};
        const struct amb_subscription_options options = {.credit_msgs = 1 + turns % 3};
        client_subscribe_from(w->far, 0, w->topic, &options, &last);
        for (unsigned i = 0; i < turns; i++) {
            (void)harness_turn(&w->h, i % 2 == 0 ? 1 : 2);
        }
        client_unsubscribe(w->far, 0);
        harness_settle(&w->h);
        client_release_all(w->far, 0);
        harness_settle(&w->h);
        amb_topic_clear(home);
        harness_settle(&w->h);
        assert_int_equal(harness_used(&w->h), 0);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
        begin(*state, "keys");
    }
}

static void test_there_are_at_most_so_many_keys(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "few");
    publish(w, "abc", 32);
    publish(w, "a", 32);
    publish(w, "d", 32); /* b has had nothing new for longest */
    assert_int_equal(amb_keys_count(home->keys), 3);
    subscribe_last(w, 100);
    expect_got(w, "cad", 0);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_memory_of_what_is_superseded_is_given_back(void **state)
{
    struct world *w = *state;
    begin(w, "keys");
    for (unsigned i = 0; i < 50; i++) {
        publish(w, "abcabcabc", 1024);
    }
    uint64_t used = harness_used(&w->h);
    assert_true(used < 3 * 4096);
    for (unsigned i = 0; i < 50; i++) {
        publish(w, "abcabcabc", 1024);
    }
    assert_int_equal(harness_used(&w->h), used);
}

static void test_they_take_no_more_than_the_log_may(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "small");
    for (char letter = 'A'; letter <= 'z'; letter++) {
        publish(w, (const char[]){letter, '\0'}, 4096);
    }
    assert_in_range(amb_keys_count(home->keys), 5, 15);
    assert_true(harness_used(&w->h) <= (64 << 10));
}

static void test_where_memory_is_short_they_go(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "keys");
    publish(w, "abcdefgh", 1024);
    assert_true(harness_shed(home));
    assert_int_equal(amb_keys_count(home->keys), 4);
    while (harness_shed(home)) {
    }
    assert_int_equal(amb_keys_count(home->keys), 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_history_is_kept_beside_them(void **state)
{
    struct world *w = *state;
    begin(w, "both");
    publish(w, "a", 32);
    publish(w, "b", 32);
    for (unsigned i = 0; i < 10; i++) {
        publish(w, "c", 32);
    }
    subscribe_last(w, 100);
    expect_got(w, "abc", 0);
    const struct amb_begin first = {.start = AMB_START_FIRST};
    w->got[0][0] = '\0';
    memset(w->got[0], 0, sizeof(w->got[0]));
    client_subscribe_from(w->near, 1, w->topic, NULL, &first);
    harness_settle(&w->h);
    assert_string_equal(w->got[0], "cccc");
    client_drain(w->near, 0);
    client_drain(w->near, 1);
    client_drain(w->far, 0);
}

static void test_what_has_expired_is_not_given(void **state)
{
    struct world *w = *state;
    begin(w, "short");
    publish(w, "ab", 32);
    harness_pass(&w->h, AMB_NS_PER_SEC / 2);
    publish(w, "b", 32);
    harness_pass(&w->h, 3 * AMB_NS_PER_SEC / 4);
    harness_settle(&w->h);
    subscribe_last(w, 100);
    assert_string_equal(w->got[0], "b");
    assert_string_equal(w->got[1], "b");
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static enum amb_status ask(struct world *w)
{
    struct amb_order_topic ask = {.topic = harness_home(&w->h, w->topic)};
    amb_order_topic_ask.run(w->h.peers[1], &ask.order);
    return ask.order.status;
}

static void test_a_topic_stays_for_as_long_as_it_keeps_some(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "keys");
    assert_int_equal(ask(w), AMB_OK);
    publish(w, "ab", 32);
    harness_pass(&w->h, 100 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(ask(w), AMB_EAGAIN);
    while (harness_shed(home)) {
    }
    assert_int_equal(ask(w), AMB_OK);
}

static void test_what_has_expired_goes(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "short");
    publish(w, "ab", 32);
    harness_pass(&w->h, 3 * AMB_NS_PER_SEC / 4);
    publish(w, "bc", 32);
    assert_int_equal(amb_keys_count(home->keys), 3);
    harness_pass(&w->h, AMB_NS_PER_SEC / 2);
    publish(w, "d", 32);
    assert_int_equal(amb_keys_count(home->keys), 3); /* without a */
    harness_pass(&w->h, 2 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(ask(w), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_latest_leaves_out_what_has_a_newer_one_of_its_key(void **state)
{
    struct world *w = *state;
    begin(w, "keys");
    const struct amb_subscription_options options = {.slow = AMB_SLOW_LATEST, .credit_msgs = 1};
    client_subscribe(w->near, 0, w->topic, &options);
    client_subscribe(w->far, 0, w->topic, &options);
    harness_settle(&w->h);
    publish(w, "a", 32);
    for (unsigned i = 0; i < 5; i++) {
        publish(w, "b", 32);
        publish(w, "-", 32);
        publish(w, "ca", 32);
    }
    for (unsigned i = 0; i < 5; i++) {
        release(w);
    }
    assert_string_equal(w->got[0] + strlen(w->got[0]) - 3, "bca");
    assert_string_equal(w->got[0], w->got[1]);
    assert_true(strlen(w->got[0]) < 8);
    assert_int_equal(w->near->subs[0].msgs + w->near->subs[0].lost, 21);
    assert_int_equal(w->far->subs[0].msgs + w->far->subs[0].lost, 21);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_a_hash_that_publishers_choose_makes_no_long_chains(void **state)
{
    struct world *w = *state;
    const struct amb_topic *topic = begin(w, "many");
    for (uint32_t first = 0; first < 4096; first += 256) {
        publish_collisions(w, first, 256);
    }
    assert_int_equal(amb_keys_count(topic->keys), 4096);
    assert_in_range(amb_keys_longest_chain(topic->keys), 1, 16);
}

/* Another configuration, in which no topic keeps any. */
static void keep_none(struct world *w)
{
    struct amb_config_source source = {.dev = true};
    struct amb_config *config = NULL;
    assert_int_equal(amb_config_create(&source, NULL, 0, &config), AMB_OK);
    for (unsigned i = 0; i < w->h.count; i++) {
        amb_topic_use_config(harness_topic_on(&w->h, w->topic, i), config);
    }
    amb_config_destroy(&config);
}

static void test_a_reload_that_keeps_none_ends_what_readers_were_given(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "keys");
    publish(w, "abc", 32);
    subscribe_last(w, 1);
    expect_got(w, "a", 0);
    keep_none(w);
    assert_null(home->keys);
    publish(w, "d", 32);
    for (unsigned i = 0; i < 4; i++) {
        release(w);
    }
    expect_got(w, "ad", 0);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_last_is_the_newest_of_each_key_then_what_comes),
        T(test_it_comes_at_the_readers_pace_and_before_what_is_new),
        T(test_a_reader_that_leaves_in_the_middle_holds_nothing),
        T(test_a_reload_that_keeps_none_ends_what_readers_were_given),
        T(test_what_gets_a_newer_message_meanwhile_comes_once),
        T(test_all_keys_come),
        T(test_readers_that_stand_still_keep_nothing),
        T(test_a_queue_that_starts_at_last_gets_the_newest_of_each_key),
        T(test_a_reader_that_leaves_while_it_asks),
        T(test_there_are_at_most_so_many_keys),
        T(test_a_hash_that_publishers_choose_makes_no_long_chains),
        T(test_memory_of_what_is_superseded_is_given_back),
        T(test_they_take_no_more_than_the_log_may),
        T(test_where_memory_is_short_they_go),
        T(test_history_is_kept_beside_them),
        T(test_what_has_expired_is_not_given),
        T(test_a_topic_stays_for_as_long_as_it_keeps_some),
        T(test_what_has_expired_goes),
        T(test_latest_leaves_out_what_has_a_newer_one_of_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
