/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of traced batches. Each is held for a reason, is given a batch by a way, and leaves one
 * out or loses it for a reason.
 */
#include "broker/delivery/traced.h"

#include "tests/unit/broker/delivery/acks/queue_world.h"

#include "broker/observe/objects.h"
#include "broker/session/path.h"
#include "tests/support/shard/shard_trace.h"

static const struct amb_subscription_options waits = {
    .credit_msgs = 1, .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX};

/* The stage and the reason that reader `client` has come to with that batch. */
static void expect_stand(const struct amb_trace *trace, const struct shard_client *client,
                         unsigned batch, enum amb_trace_stage stage, enum amb_trace_why why)
{
    struct amb_trace_record last = {0};
    for (unsigned i = 0; i < trace->part_count; i++) {
        const struct amb_trace_part *part = trace->parts[i];
        for (uint32_t k = 0; k < part->count; k++) {
            const struct amb_trace_record *record = &part->records[k];
            if (record->client == client->id && record->batch == batch && record->reader != 0) {
                last = *record;
            }
        }
    }
    assert_string_equal(amb_trace_stage_name(last.stage), amb_trace_stage_name(stage));
    assert_string_equal(amb_trace_why_name(last.why), amb_trace_why_name(why));
}

static void test_a_reader_without_credit(void **state)
{
    struct world *w = *state;
    client_subscribe(w->c, 1, w->topic, &waits);
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 3);
    publish(w, 3, 1, 64);
    expect_stand(trace, w->c, 1, AMB_TRACE_WRITTEN, AMB_TRACE_WHY_NONE);
    expect_stand(trace, w->c, 2, AMB_TRACE_HELD, AMB_TRACE_WHY_CREDIT);
    unsigned held = harness_noted(trace, AMB_TRACE_HELD, 0, NULL);
    harness_pass(&w->h, AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(harness_noted(trace, AMB_TRACE_HELD, 0, NULL), held); /* Said once. */
    client_drain(w->c, 1);
    expect_stand(trace, w->c, 3, AMB_TRACE_BACK, AMB_TRACE_WHY_NONE);
    assert_int_equal(harness_noted(trace, AMB_TRACE_DROPPED, 0, NULL), 0);
    assert_int_equal(trace->over, 3);
    harness_disarm(&w->h, &trace);
}

static void test_the_way_of_a_delivery(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    client_subscribe(w->a, 1, w->topic, NULL); /* maps */
    client_subscribe(w->b, 1, w->topic, NULL); /* shares no memory */
    harness_settle(&w->h);
    publish(w, 1, 1, 64); /* The segment is mapped with the first. */
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 2, 64);
    unsigned mapped = 0;
    for (unsigned i = 0; i < trace->part_count; i++) {
        for (uint32_t k = 0; k < trace->parts[i]->count; k++) {
            record = trace->parts[i]->records[k];
            if (record.stage == AMB_TRACE_WRITTEN && record.client == w->a->id) {
                mapped++;
                assert_int_equal(record.how, AMB_TRACE_MAPPED);
                assert_int_equal(record.path_why, AMB_PATH_BEST);
            } else if (record.stage == AMB_TRACE_WRITTEN) {
                assert_int_equal(record.how, AMB_TRACE_COPIED);
                assert_int_equal(record.path_why, AMB_PATH_LINK);
            }
        }
    }
    assert_int_equal(mapped, 1);
    client_drain(w->a, 1);
    client_drain(w->b, 1);
    assert_int_equal(trace->over, 1);
    harness_disarm(&w->h, &trace);
}

static void test_lazy_readers(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    client_subscribe(w->c, 1, w->topic, &(struct amb_subscription_options){.lazy = AMB_LAZY_ON});
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 1, 5000);
    assert_int_equal(harness_noted(trace, AMB_TRACE_WRITTEN, 1, &record), 1);
    assert_int_equal(record.how, AMB_TRACE_LAZY);
    client_drain(w->c, 1);
    expect_stand(trace, w->c, 1, AMB_TRACE_BACK, AMB_TRACE_WHY_NONE);
    harness_disarm(&w->h, &trace);
}

static void test_a_reader_that_pins_all_it_may(void **state)
{
    struct world *w = *state;
    client_subscribe(w->c, 1, w->topic, &(struct amb_subscription_options){.lazy = AMB_LAZY_PIN});
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 2);
    publish(w, 1, 1, 5000);
    w->c->session->mapped_max = 0; /* its room, of any memory */
    publish(w, 1, 1, 5000);
    expect_stand(trace, w->c, 2, AMB_TRACE_HELD, AMB_TRACE_WHY_LAZY);
    client_drain(w->c, 1);
    assert_int_equal(trace->over, 2);
    harness_disarm(&w->h, &trace);
}

static void test_a_filter_leaves_out(void **state)
{
    struct world *w = *state;
    w->a->filter = "missing = 1";
    client_subscribe(w->a, 1, w->topic, NULL);
    client_subscribe(w->c, 1, w->topic, NULL);
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 2, 64);
    expect_stand(trace, w->a, 1, AMB_TRACE_LEFT_OUT, AMB_TRACE_WHY_FILTER);
    expect_stand(trace, w->c, 1, AMB_TRACE_WRITTEN, AMB_TRACE_WHY_NONE);
    assert_int_equal(harness_noted(trace, AMB_TRACE_LEFT_OUT, 0, NULL), 1);
    client_drain(w->c, 1);
    assert_int_equal(trace->over, 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_LEFT_OUT, 0, NULL), 1);
    harness_disarm(&w->h, &trace);
}

/* Credit for one, and a policy that loses; `batch` is what it does not get. */
static void loses(struct world *w, enum amb_slow slow, const char *name, unsigned batches,
                  unsigned batch, enum amb_trace_why why)
{
    struct amb_subscription_options options = waits;
    uint32_t topic = harness_topic(&w->h, name, w->h.count - 1);
    options.slow = slow;
    options.slow_block_ns = slow == AMB_SLOW_BLOCK ? AMB_NS_PER_MS : 0;
    client_open_pub(w->p, 1, topic, false);
    client_subscribe(w->c, 1, topic, &options);
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, name, 1, batches);
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 1, 1, 64);
        harness_settle(&w->h);
        harness_pass(&w->h, 10 * AMB_NS_PER_MS);
        harness_settle(&w->h);
    }
    expect_stand(trace, w->c, batch, AMB_TRACE_DROPPED, why);
    client_drain(w->c, 1);
    assert_int_equal(trace->over, batches);
    /* Each batch is at its end once. */
    assert_int_equal(harness_noted(trace, AMB_TRACE_BACK, 0, NULL) +
                         harness_noted(trace, AMB_TRACE_DROPPED, 0, NULL),
                     batches);
    harness_disarm(&w->h, &trace);
}

static void test_the_oldest_go(void **state)
{
    loses(*state, AMB_SLOW_DROP_OLDEST, "small", 14, 2, AMB_TRACE_WHY_SLOW);
}

static void test_the_newest_go(void **state)
{
    loses(*state, AMB_SLOW_DROP_NEWEST, "new", 3, 2, AMB_TRACE_WHY_SLOW);
}

static void test_the_newest_alone_is_wanted(void **state)
{
    loses(*state, AMB_SLOW_LATEST, "latest", 4, 2, AMB_TRACE_WHY_LATEST);
}

static void test_one_that_has_held_for_too_long(void **state)
{
    loses(*state, AMB_SLOW_BLOCK, "small", 14, 2, AMB_TRACE_WHY_TRIMMED);
}

static void test_a_client_that_ends_gives_nothing_back(void **state)
{
    struct world *w = *state;
    client_subscribe(w->c, 1, w->topic, NULL);
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 1, 64);
    client_close(w->c, false);
    harness_settle(&w->h);
    expect_stand(trace, w->c, 1, AMB_TRACE_DROPPED, AMB_TRACE_WHY_ENDED);
    assert_int_equal(trace->over, 1);
    harness_disarm(&w->h, &trace);
}

static void test_a_queue_without_a_member_that_takes(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    open_with(w, NULL);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 1, 64);
    assert_int_equal(harness_noted(trace, AMB_TRACE_HELD, 1, &record), 1);
    assert_int_equal(record.why, AMB_TRACE_WHY_MEMBERS);
    assert_true(record.is_queue);
    client_join(w->a, 0, &w->q, NULL);
    harness_settle(&w->h);
    assert_int_equal(harness_noted(trace, AMB_TRACE_GIVEN, 1, NULL), 1);
    client_ack(w->a, 0, 1);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_noted(trace, AMB_TRACE_ACKED, 1, NULL), 1);
    assert_int_equal(trace->over, 1);
    harness_disarm(&w->h, &trace);
}

/* Its members left a message. That is lost because the queue ends; nobody has given it up. */
static void test_a_queue_that_ends(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 1);
    publish(w, 1, 1, 64);
    client_quit(w->a, 0, 0);
    assert_int_equal(harness_noted(trace, AMB_TRACE_DROPPED, 0, NULL), 0);
    harness_queue_close(&w->q);
    harness_settle(&w->h);
    assert_int_equal(harness_noted(trace, AMB_TRACE_DROPPED, 1, &record), 1);
    assert_int_equal(record.why, AMB_TRACE_WHY_ENDED);
    assert_int_equal(trace->over, 1);
    harness_disarm(&w->h, &trace);
}

/* The first so many are looked at in a turn; the others are noted when they are given it. */
static void test_looks_are_bounded(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    client_subscribe(w->a, 1, w->topic, &waits);
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "t", 1, 3);
    publish(w, 3, 1, 64);
    struct amb_trace_part *part = trace->parts[0];
    assert_true(part->watch_end > 0 && part->watch_end <= 3);
    assert_true(shard->trace.is_watching);
    assert_true(shard->observe.due_ns <= shard->now_ns); /* each turn looks, */
    assert_true(amb_objects_due(shard) > shard->now_ns); /* and none is woken for it */
    client_drain(w->a, 1);
    assert_int_equal(part->watch_end, 0);
    assert_false(shard->trace.is_watching);
    harness_disarm(&w->h, &trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_reader_without_credit),
        BOTH(test_the_way_of_a_delivery),
        BOTH(test_lazy_readers),
        BOTH(test_a_reader_that_pins_all_it_may),
        BOTH(test_a_filter_leaves_out),
        BOTH(test_the_oldest_go),
        BOTH(test_the_newest_go),
        BOTH(test_the_newest_alone_is_wanted),
        BOTH(test_one_that_has_held_for_too_long),
        BOTH(test_a_client_that_ends_gives_nothing_back),
        BOTH(test_a_queue_without_a_member_that_takes),
        BOTH(test_a_queue_that_ends),
        cmocka_unit_test_setup_teardown(test_looks_are_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
