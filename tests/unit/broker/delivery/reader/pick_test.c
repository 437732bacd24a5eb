/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers that do not get everything: messages that their policy leaves out, and expired ones. A
 * publisher on shard 0, topics at home on shard 1; `near` maps there, `far` reads on shard 2 by
 * copy.
 */
#include "broker/config/config.h"
#include "broker/delivery/forward.h"
#include "broker/delivery/reader/pick.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_trio.h"
#include "wire/base/clock.h"
#include "wire/codec/props.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"few\"; max_messages = 10; },\n"
    "           { match = \"short\"; ttl = \"1s\"; } );\n";

static int setup(void **state)
{
    return shard_trio_setup(state, rules);
}

static void begin(struct shard_trio *w, const char *name, enum amb_slow slow, uint64_t credit)
{
    uint32_t topic = harness_topic(&w->h, name, 1);
    const struct amb_subscription_options options = {
        .slow = slow, .slow_block_ns = INT64_MAX, .credit_msgs = credit};
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->near, 0, topic, &options);
    client_subscribe(w->far, 0, topic, &options);
    harness_settle(&w->h);
}

static void publish(struct shard_trio *w, unsigned batches, uint32_t count)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, count, 32);
        harness_settle(&w->h);
    }
}

static void release(struct shard_trio *w)
{
    client_release_all(w->near, 0);
    client_release_all(w->far, 0);
    harness_settle(&w->h);
}

static void finish(struct shard_trio *w)
{
    client_drain(w->near, 0);
    client_drain(w->far, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

/* The newest delivery of both: its first message, how many are given, what is missing before. */
static void expect_last(struct shard_trio *w, uint64_t number, uint64_t seq, uint32_t given,
                        uint64_t lost, enum amb_loss why)
{
    struct shard_client *both[2] = {w->near, w->far};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(both[i]->subs[0].last, number);
        const struct client_delivery *delivery = client_delivery(both[i], 0, number);
        const struct amb_frame *frame = &delivery->frame;
        assert_int_equal(frame->seq, seq);
        assert_int_equal(delivery->stamp.number, seq); /* the message is the one it says */
        assert_int_equal(frame->count - frame->first - frame->rest, given);
        assert_int_equal(frame->lost, lost);
        assert_int_equal(frame->status, why);
    }
}

static void test_drop_newest_keeps_what_is_within_its_credit(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_SLOW_DROP_NEWEST, 3);
    publish(w, 10, 1);
    expect_last(w, 3, 3, 1, 0, AMB_LOSS_NONE);
    /* Messages that were left out keep no memory. */
    release(w);
    assert_int_equal(harness_used(&w->h), 0);
    publish(w, 1, 1);
    expect_last(w, 4, 11, 1, 7, AMB_LOSS_SLOW);
    finish(w);
    assert_int_equal(w->near->subs[0].msgs + w->near->subs[0].lost, 11);
}

static void test_latest_gives_the_newest_when_the_reader_is_ready(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_SLOW_LATEST, 1);
    publish(w, 10, 1);
    expect_last(w, 1, 1, 1, 0, AMB_LOSS_NONE);
    release(w);
    expect_last(w, 2, 10, 1, 8, AMB_LOSS_SLOW);
    release(w);
    publish(w, 1, 1);
    expect_last(w, 3, 11, 1, 0, AMB_LOSS_NONE);
    finish(w);
}

static void test_latest_takes_the_end_of_a_batch_that_is_larger_than_its_credit(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "a", AMB_SLOW_LATEST, 4);
    publish(w, 1, 4);
    expect_last(w, 1, 1, 4, 0, AMB_LOSS_NONE);
    release(w);
    publish(w, 1, 8);
    expect_last(w, 2, 12, 1, 7, AMB_LOSS_SLOW);
    finish(w);
    assert_int_equal(w->near->subs[0].msgs + w->near->subs[0].lost, 12);
    assert_int_equal(w->far->subs[0].msgs + w->far->subs[0].lost, 12);
}

static void test_a_gap_that_nobody_can_count_says_nothing_of_the_next_one(void **state)
{
    (void)state;
    struct amb_topic topic = {.purge = {0}};
    struct amb_cursor cursor = {
        .topic = &topic,
        .loss = {.expected_seq = 1, .is_unknown = true, .is_late = true, .expired = 4}};
    struct amb_gap gap;
    amb_pick_loss(&cursor, 10, &gap);
    assert_true(gap.lost == UINT64_MAX && gap.why == AMB_LOSS_TRIMMED);
    cursor.loss.expected_seq = 20;
    amb_pick_loss(&cursor, 23, &gap);
    assert_true(gap.lost == 3 && gap.expired == 0 && gap.why == AMB_LOSS_SLOW);
}

static void check_gap(uint64_t from, uint64_t upto, uint64_t expired, enum amb_loss why,
                      uint64_t purged)
{
    struct amb_topic topic = {.purge = {from, upto}};
    struct amb_cursor cursor = {.topic = &topic, .loss = {.expected_seq = 10, .expired = expired}};
    struct amb_gap gap;
    amb_pick_loss(&cursor, 20, &gap);
    assert_int_equal(gap.lost, 10);
    assert_int_equal(gap.purged, purged);
    assert_int_equal(gap.why, why);
}

static void test_messages_that_an_operator_dropped(void **state)
{
    (void)state;
    check_gap(0, 0, 0, AMB_LOSS_SLOW, 0);
    check_gap(1, 10, 0, AMB_LOSS_SLOW, 0);  /* before it, */
    check_gap(20, 30, 0, AMB_LOSS_SLOW, 0); /* and behind it */
    check_gap(10, 20, 0, AMB_LOSS_PURGED, 10);
    check_gap(1, 99, 0, AMB_LOSS_PURGED, 10);
    check_gap(12, 20, 0, AMB_LOSS_MIXED, 8);
    check_gap(1, 11, 0, AMB_LOSS_MIXED, 1);
    check_gap(10, 20, 4, AMB_LOSS_MIXED, 6); /* A message counts once. */
    check_gap(0, 0, 10, AMB_LOSS_EXPIRED, 0);
}

static void test_disconnect_ends_a_session_before_it_loses_anything(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "few", AMB_SLOW_DISCONNECT, 1);
    publish(w, 9, 1);
    assert_int_equal(w->near->ended + w->far->ended, 0);
    publish(w, 30, 1);
    assert_int_equal(w->near->ended, 1);
    assert_int_equal(w->near->ended_why, AMB_EKICKED);
    assert_non_null(strstr(w->near->ended_text, "few"));
    assert_int_equal(w->far->ended, 1);
    assert_int_equal(w->near->subs[0].lost, 0);
    finish(w);
}

static void test_a_topic_may_say_how_old_messages_get(void **state)
{
    struct shard_trio *w = *state;
    begin(w, "short", AMB_SLOW_BLOCK, 1);
    publish(w, 5, 1);
    harness_pass(&w->h, AMB_NS_PER_SEC + 1000);
    release(w);
    expect_last(w, 1, 1, 1, 0, AMB_LOSS_NONE); /* the others are too old */
    publish(w, 1, 1);
    expect_last(w, 2, 6, 1, 4, AMB_LOSS_EXPIRED);
    finish(w);
    const struct amb_subscription *sub = amb_session_subscription(w->near->session, 0);
    assert_int_equal(sub->lost, 4);
    assert_int_equal(sub->lost_by[AMB_LOSS_EXPIRED], 4);
}

/* One batch, each message of it with its own time to live. */
static void publish_with_ttls(struct shard_trio *w, const uint32_t *ttls_ms, uint32_t count)
{
    struct client_pub *pub = &w->p->pubs[0];
    uint8_t body[16 * 48] = {0};
    const struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .flags = AMB_FRAME_FLAG_TTL,
        .handle = 0,
        .seq = ++pub->batches,
        .count = count,
        .data_len = (uint64_t)count * 32,
        .meta_len = count * (uint32_t)sizeof(struct amb_record),
    };
    for (uint32_t i = 0; i < count; i++) {
        struct client_stamp stamp = {.number = ++pub->messages};
        struct amb_record record = {.len = 32, .ttl_ms = ttls_ms[i]};
        memcpy(body + (size_t)i * 32, &stamp, sizeof(stamp));
        memcpy(body + (size_t)count * 32 + i * sizeof(record), &record, sizeof(record));
    }
    pub->bytes += frame.data_len + frame.meta_len;
    client_send_body(w->p, &frame, body);
    harness_settle(&w->h);
}

static void test_messages_of_a_batch_expire_each_in_its_time(void **state)
{
    static const uint32_t ttls_ms[] = {100, 0, 0, 100, 5000, 100};
    struct shard_trio *w = *state;
    begin(w, "a", AMB_SLOW_BLOCK, 2);
    publish(w, 2, 1);
    publish_with_ttls(w, ttls_ms, 6); /* 3 to 8 */
    publish(w, 1, 1);
    expect_last(w, 2, 2, 1, 0, AMB_LOSS_NONE);
    harness_pass(&w->h, 200 * AMB_NS_PER_MS);
    release(w); /* One delivery, and a second one beside it. */
    expect_last(w, 4, 7, 1, 1, AMB_LOSS_EXPIRED);
    assert_int_equal(client_delivery(w->near, 0, 3)->frame.seq, 4);
    assert_int_equal(client_delivery(w->near, 0, 3)->frame.lost, 1);
    release(w);
    expect_last(w, 5, 9, 1, 1, AMB_LOSS_EXPIRED);
    finish(w);
}

static void test_a_batch_that_is_young_enough_is_given_whole(void **state)
{
    static const uint32_t ttls_ms[] = {100, 0, 50};
    struct shard_trio *w = *state;
    begin(w, "a", AMB_SLOW_BLOCK, 10);
    publish_with_ttls(w, ttls_ms, 3);
    expect_last(w, 1, 1, 3, 0, AMB_LOSS_NONE);
    finish(w);
}

/* One batch; the i-th message has a property n, the i-th digit of `digits`, but for '-'. */
static void publish_digits(struct shard_trio *w, const char *digits)
{
    struct client_pub *pub = &w->p->pubs[0];
    uint8_t body[16 * 64] = {0};
    uint32_t count = (uint32_t)strlen(digits);
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .seq = ++pub->batches,
        .count = count,
        .data_len = (uint64_t)count * 32,
        .meta_len = count * (uint32_t)sizeof(struct amb_record),
    };
    uint8_t *blobs = body + frame.data_len + frame.meta_len;
    for (uint32_t i = 0; i < count; i++) {
        struct client_stamp stamp = {.number = ++pub->messages};
        struct amb_record record = {.len = 32};
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, blobs, 16);
        if (digits[i] != '-') {
            assert_int_equal(amb_props_add(&writer, "n", digits + i, 1), AMB_OK);
        }
        record.props_len = (uint16_t)writer.len;
        blobs += amb_props_padded(record.props_len);
        frame.meta_len += amb_props_padded(record.props_len);
        memcpy(body + (size_t)i * 32, &stamp, sizeof(stamp));
        memcpy(body + (size_t)count * 32 + i * sizeof(record), &record, sizeof(record));
    }
    pub->bytes += frame.data_len + frame.meta_len;
    client_send_body(w->p, &frame, body);
    harness_settle(&w->h);
}

static void begin_filtered(struct shard_trio *w, const char *name, const char *filter,
                           uint64_t credit)
{
    w->near->filter = w->far->filter = filter;
    begin(w, name, AMB_SLOW_DROP_OLDEST, credit);
}

static void test_a_filter_gives_what_passes_and_loses_nothing(void **state)
{
    struct shard_trio *w = *state;
    begin_filtered(w, "a", "n > 5", 100);
    publish_digits(w, "1-678129");
    expect_last(w, 2, 8, 1, 0, AMB_LOSS_NONE);
    assert_int_equal(client_delivery(w->near, 0, 1)->frame.seq, 3);
    assert_int_equal(client_delivery(w->far, 0, 1)->stamp.number, 3);
    publish_digits(w, "123");
    publish(w, 3, 2); /* without properties */
    publish_digits(w, "9");
    expect_last(w, 3, 18, 1, 0, AMB_LOSS_NONE);
    assert_int_equal(w->near->subs[0].lost + w->far->subs[0].lost, 0);
    assert_int_equal(w->near->subs[0].msgs, 5);
    finish(w);
}

static void test_a_small_part_of_a_batch_goes_without_the_rest(void **state)
{
    struct shard_trio *w = *state;
    begin_filtered(w, "a", "n = '7'", 100);
    publish_digits(w, "7"); /* from here on near has it mapped */
    publish_digits(w, "11111711");
    /* In place all of it is there anyway. */
    assert_int_equal(client_delivery(w->near, 0, 2)->frame.count, 8);
    const struct amb_frame *frame = &client_delivery(w->far, 0, 2)->frame;
    assert_int_equal(frame->count, 1);
    assert_int_equal(frame->first + frame->rest, 0);
    assert_int_equal(frame->data_len, 32);
    assert_int_equal(frame->meta_len, sizeof(struct amb_record) + 8);
    expect_last(w, 2, 7, 1, 0, AMB_LOSS_NONE);
    finish(w);
}

static void test_what_the_log_lost_unseen_is_lost_whether_it_would_have_passed_or_not(void **state)
{
    struct shard_trio *w = *state;
    begin_filtered(w, "few", "n = '7'", 1);
    publish_digits(w, "7"); /* 1, delivered */
    publish_digits(w, "7"); /* 2, waits */
    publish_digits(w, "1"); /* never looked at */
    publish_digits(w, "7");
    publish_digits(w, "111111117"); /* 5 to 13: the log keeps 10, so 2 and 3 go */
    release(w);
    expect_last(w, 2, 4, 1, 2, AMB_LOSS_SLOW);
    release(w);
    expect_last(w, 3, 13, 1, 0, AMB_LOSS_NONE);
    release(w);
    publish_digits(w, "117");
    expect_last(w, 4, 16, 1, 0, AMB_LOSS_NONE);
    finish(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_trio_teardown)
        T(test_drop_newest_keeps_what_is_within_its_credit),
        T(test_latest_gives_the_newest_when_the_reader_is_ready),
        T(test_latest_takes_the_end_of_a_batch_that_is_larger_than_its_credit),
        T(test_a_gap_that_nobody_can_count_says_nothing_of_the_next_one),
        T(test_messages_that_an_operator_dropped),
        T(test_disconnect_ends_a_session_before_it_loses_anything),
        T(test_a_topic_may_say_how_old_messages_get),
        T(test_messages_of_a_batch_expire_each_in_its_time),
        T(test_a_batch_that_is_young_enough_is_given_whole),
        T(test_a_filter_gives_what_passes_and_loses_nothing),
        T(test_a_small_part_of_a_batch_goes_without_the_rest),
        T(test_what_the_log_lost_unseen_is_lost_whether_it_would_have_passed_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
