/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: the stages of a batch from its head to its end, on one worker and spread over three. They
 * are those of the next batches, of topics that match. Records without room are counted.
 */
#include "broker/ingest/publisher.h"
#include "broker/topic/trim.h"
#include "tests/unit/broker/delivery/acks/queue_world.h"

#include "tests/support/shard/shard_trace.h"

/* A topic whose home is not the publisher's worker, if there are several. */
static uint32_t open_topic(struct world *w, const char *name)
{
    uint32_t topic = harness_topic(&w->h, name, w->h.count - 1);
    client_open_pub(w->p, 1, topic, false);
    return topic;
}

static void send(struct world *w, unsigned batches, uint32_t count)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 1, count, 64);
        harness_settle(&w->h);
    }
}

static void read_all(struct world *w, uint32_t topic)
{
    client_subscribe(w->a, 1, topic, NULL);
    client_subscribe(w->b, 1, topic, NULL);
    client_subscribe(w->c, 1, topic, NULL);
    harness_settle(&w->h);
}

static void release_all(struct world *w)
{
    client_release_all(w->a, 1);
    client_release_all(w->b, 1);
    client_release_all(w->c, 1);
    harness_settle(&w->h);
}

static void test_a_batch_goes_through_its_stages(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    uint32_t topic = open_topic(w, "u");
    read_all(w, topic);
    struct amb_trace *trace = harness_arm(&w->h, "u", 7, 2);
    send(w, 1, 3);
    assert_int_equal(harness_noted(trace, AMB_TRACE_HEAD, 1, &record), 1);
    assert_int_equal(record.msgs, 3);
    assert_int_equal(record.topic, topic);
    assert_true(record.bytes >= 3 * 64);
    assert_int_equal(harness_noted(trace, AMB_TRACE_BODY, 1, NULL), 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_ROUTED, 1, NULL), 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_APPENDED, 1, &record), 1);
    assert_int_equal(record.readers, 3);
    assert_int_equal(record.seq, 1);
    assert_int_equal(record.worker, (int)w->h.count - 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_LENT, 1, NULL), w->h.count - 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_WRITTEN, 1, &record), 3);
    assert_int_equal(record.msgs, 3);
    assert_int_equal(harness_noted(trace, AMB_TRACE_BACK, 0, NULL), 0);
    assert_int_equal(trace->over, 0);
    release_all(w);
    assert_int_equal(harness_noted(trace, AMB_TRACE_BACK, 1, NULL), 3);
    assert_int_equal(harness_noted(trace, AMB_TRACE_OVER, 1, &record), 1);
    assert_int_equal(record.msgs, 9);
    assert_int_equal(trace->over, 1);
    assert_int_equal(w->p->settle_count, 0); /* Its publisher has not asked. */
    harness_disarm(&w->h, &trace);
}

static void test_only_the_next_ones_of_its_topics(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    struct amb_trace *trace = harness_arm(&w->h, "u", 1, 2);
    publish(w, 3, 1, 64); /* to "t" */
    assert_int_equal(trace->taken, 0);
    send(w, 5, 1);
    assert_int_equal(trace->taken, 2);
    assert_int_equal(harness_noted(trace, AMB_TRACE_HEAD, 0, NULL), 2);
    assert_int_equal(harness_noted(trace, AMB_TRACE_WRITTEN, 2, NULL), 3);
    release_all(w);
    assert_int_equal(trace->over, 2);
    harness_disarm(&w->h, &trace);
    send(w, 2, 1); /* Nobody asks any more. */
    release_all(w);
}

static void test_two_traces_share_the_batches(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    struct amb_trace *one = harness_arm(&w->h, "u", 1, 2), *two = harness_arm(&w->h, ">", 3, 3);
    send(w, 4, 1);
    assert_int_equal(harness_noted(one, AMB_TRACE_APPENDED, 0, NULL), 2);
    assert_int_equal(harness_noted(two, AMB_TRACE_APPENDED, 0, NULL), 2);
    harness_disarm(&w->h, &one);
    release_all(w); /* Of batches whose trace has ended nothing is noted. */
    assert_int_equal(two->over, 2);
    harness_disarm(&w->h, &two);
}

static void test_so_many_can_be_armed(void **state)
{
    struct world *w = *state;
    struct amb_trace *traces[AMB_TRACES_MAX], *more;
    for (uint32_t i = 0; i < AMB_TRACES_MAX; i++) {
        traces[i] = harness_arm(&w->h, ">", 1 + 10 * i, 10);
    }
    more = amb_trace_create(">", AMB_TENANT_ANY, 1000, 1, w->h.count);
    assert_false(amb_trace_arm(&w->h.shards[0], more));
    amb_trace_disarm(&w->h.shards[0], more); /* harmless */
    amb_trace_destroy(&more);
    for (uint32_t i = 0; i < AMB_TRACES_MAX; i++) {
        harness_disarm(&w->h, &traces[i]);
    }
    assert_int_equal(w->h.shards[0].trace.count, 0);
}

static void test_a_publisher_that_asks_is_told_too(void **state)
{
    struct world *w = *state;
    uint32_t topic = open_topic(w, "u");
    struct amb_publisher *publisher = amb_session_publisher(w->p->session, 1);
    publisher->confirms = publisher->asks = true;
    read_all(w, topic);
    struct amb_trace *trace = harness_arm(&w->h, "u", 1, 1);
    send(w, 2, 2);
    release_all(w);
    assert_int_equal(w->p->settle_count, 2);
    assert_int_equal(w->p->settles[0].matched, 3);
    assert_int_equal(harness_noted(trace, AMB_TRACE_OVER, 1, NULL), 1);
    harness_disarm(&w->h, &trace);
}

static void test_a_refused_batch_is_over(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    uint32_t topic = open_topic(w, "reject");
    client_subscribe(w->c, 1, topic,
                     &(struct amb_subscription_options){
                         .credit_msgs = 1, .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX});
    harness_settle(&w->h);
    struct amb_trace *trace = harness_arm(&w->h, "reject", 1, 40);
    send(w, 40, 1);
    unsigned refused = harness_noted(trace, AMB_TRACE_REFUSED, 0, &record);
    assert_true(refused > 20);
    assert_int_equal(record.status, AMB_EREJECTED);
    assert_int_equal(harness_noted(trace, AMB_TRACE_APPENDED, record.batch, NULL), 0);
    assert_int_equal(harness_noted(trace, AMB_TRACE_APPENDED, 0, NULL), 40 - refused);
    assert_int_equal(trace->over, refused);
    harness_disarm(&w->h, &trace);
    client_drain(w->c, 1);
}

static void test_of_a_queue_members_acknowledge(void **state)
{
    struct world *w = *state;
    struct amb_trace_record record;
    w->topic = open_topic(w, "u");
    open_with(w, NULL);
    client_join(w->a, 0, &w->q, NULL);
    struct amb_trace *trace = harness_arm(&w->h, "u", 1, 1);
    send(w, 1, 4);
    assert_int_equal(harness_noted(trace, AMB_TRACE_GIVEN, 1, &record), 1);
    assert_true(record.is_queue);
    assert_int_equal(record.reader, w->q.id);
    assert_int_equal(harness_noted(trace, AMB_TRACE_WRITTEN, 1, &record), 1);
    assert_int_equal(record.client, w->a->id);
    client_say(w->a, 0, 1, 0, 3, AMB_ACK_KIND_ACK, 0);
    client_say(w->a, 0, 1, 3, 1, AMB_ACK_KIND_TERM, 0);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_noted(trace, AMB_TRACE_ACKED, 1, &record), 1);
    assert_int_equal(record.msgs, 3);
    assert_int_equal(harness_noted(trace, AMB_TRACE_DROPPED, 1, &record), 1);
    assert_int_equal(record.why, AMB_TRACE_WHY_GIVEN_UP);
    assert_int_equal(record.msgs, 1);
    assert_int_equal(trace->over, 1);
    harness_disarm(&w->h, &trace);
}

static void test_what_has_no_room_is_counted(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    struct amb_trace *trace = harness_arm(&w->h, "u", 1, 3);
    atomic_store(&trace->parts[0]->count, AMB_TRACE_RECORDS_MAX - 1);
    send(w, 1, 1);
    assert_int_equal(trace->parts[0]->count, AMB_TRACE_RECORDS_MAX);
    assert_true(trace->parts[0]->lost > 0);
    /* Standings: */
    struct amb_trace_part *part = trace->parts[0];
    for (uint32_t i = 0; i < AMB_TRACE_STANDINGS_MAX; i++) {
        part->standings[i].ticket = 3;
        part->standings[i].reader = 1000 + i;
    }
    uint32_t lost = part->lost;
    assert_null(amb_trace_standing(&w->h.shards[0], 2, 5, 0, false));
    assert_int_equal(part->lost, lost + 1);
    assert_null(amb_trace_standing(&w->h.shards[0], 99, 5, 0, false)); /* of no trace */
    assert_int_equal(part->lost, lost + 1);
    memset(part->standings, 0, sizeof(part->standings));
    release_all(w);
    assert_int_equal(trace->over, 1);
    harness_disarm(&w->h, &trace);
}

static void test_tallies_run_out(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    struct amb_pool *pool = &w->h.shards[0].tallies.pool;
    void *held[AMB_SHARD_POOL_CHUNK];
    unsigned count = 0;
    pool->max = 1; /* A pool grows by chunks. */
    while (count < AMB_SHARD_POOL_CHUNK && (held[count] = amb_pool_get(pool)) != NULL) {
        count++;
    }
    struct amb_trace *trace = harness_arm(&w->h, "u", 1, 1);
    send(w, 1, 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_HEAD, 1, NULL), 1);
    assert_int_equal(harness_noted(trace, AMB_TRACE_ROUTED, 1, NULL), 0); /* and goes on untraced */
    assert_int_equal(w->p->pubs[1].accepted, 1);
    assert_int_equal(trace->over, 1);
    assert_int_equal(trace->parts[0]->lost, 1);
    while (count > 0) {
        amb_pool_put(pool, held[--count]);
    }
    release_all(w);
    harness_disarm(&w->h, &trace);
}

static void test_the_end_of_its_publisher_leaves_nothing(void **state)
{
    struct world *w = *state;
    read_all(w, open_topic(w, "u"));
    struct amb_trace *trace = harness_arm(&w->h, "u", 1, 5);
    send(w, 3, 2);
    client_close_pub(w->p, 1);
    release_all(w);
    assert_int_equal(trace->over, 3);
    harness_disarm(&w->h, &trace);
    for (unsigned i = 0; i < w->h.count; i++) {
        assert_int_equal(w->h.shards[i].tallies.pool.used, 0);
    }
}

/* Bits of topics: by pattern, by tenant, and anew where another topic comes to the place. */
static void test_topics_of_a_trace(void **state)
{
    (void)state;
    struct amb_trace *trace = amb_trace_create("a.*", 5, 1, 1, 1);
    amb_trace_topic(trace, 64, 5, "a.b", 3);
    assert_int_equal(trace->topics[1], 1);
    amb_trace_topic(trace, 65, 4, "a.b", 3);
    amb_trace_topic(trace, 66, 5, "a.b.c", 5);
    assert_int_equal(trace->topics[1], 1);
    amb_trace_topic(trace, 64 + AMB_TOPIC_CELLS_MAX, 5, "b", 1);
    assert_int_equal(trace->topics[1], 0);
    amb_trace_destroy(&trace);
    assert_null(trace);
    amb_trace_destroy(&trace);
}

static void test_each_has_its_word(void **state)
{
    (void)state;
    for (unsigned i = 1; i < AMB_TRACE_STAGES; i++) {
        assert_true(amb_trace_stage_name(i)[0] != '\0');
    }
    for (unsigned i = 1; i < AMB_TRACE_WHYS; i++) {
        assert_true(amb_trace_why_name(i)[0] != '\0');
    }
    for (unsigned i = 1; i < AMB_TRACE_HOWS; i++) {
        assert_true(amb_trace_how_name(i)[0] != '\0');
    }
    assert_string_equal(amb_trace_stage_name(AMB_TRACE_STAGES), "");
    assert_string_equal(amb_trace_why_name(AMB_TRACE_WHYS), "");
    assert_string_equal(amb_trace_how_name(AMB_TRACE_HOWS), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_batch_goes_through_its_stages),
        BOTH(test_only_the_next_ones_of_its_topics),
        BOTH(test_two_traces_share_the_batches),
        BOTH(test_so_many_can_be_armed),
        BOTH(test_a_publisher_that_asks_is_told_too),
        BOTH(test_a_refused_batch_is_over),
        BOTH(test_of_a_queue_members_acknowledge),
        BOTH(test_what_has_no_room_is_counted),
        BOTH(test_tallies_run_out),
        BOTH(test_the_end_of_its_publisher_leaves_nothing),
        cmocka_unit_test(test_topics_of_a_trace),
        cmocka_unit_test(test_each_has_its_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
