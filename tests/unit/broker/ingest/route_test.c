/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing: a publisher on shard 0, topics at home on 0 and on 1; the end of its batches, and the
 * answers to it.
 */
#include "broker/ingest/publisher.h"
#include "broker/ingest/route.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"64M\"; segment = \"8M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"reject.>\"; full = \"reject\"; max_messages = 3; } );\n";

struct world {
    struct shard_harness h;
    struct shard_client *p;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 2, rules);
    w->p = shard_client_create(&w->h, 0, NULL);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void push(struct world *w)
{
    amb_link_flush(w->p->link);
    (void)harness_turn(&w->h, 0);
}

static void test_at_home_everything_happens_in_one_turn(void **state)
{
    struct world *w = *state;
    client_open_pub(w->p, 0, harness_topic(&w->h, "a", 0), true);
    client_send(w->p, 0, 2, 100);
    push(w);
    (void)shard_client_turn(w->p);
    assert_int_equal(w->p->pubs[0].accepted, 1);
    assert_int_equal(w->p->settle_count, 1);
    assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes);
}

static void test_elsewhere_receipt_and_grant_come_by_mail_and_the_buffer_comes_home(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 1);
    client_open_pub(w->p, 0, topic, true);
    client_send(w->p, 0, 2, 100);
    push(w);
    (void)shard_client_turn(w->p);
    assert_int_equal(w->p->pubs[0].accepted, 0);
    (void)harness_turn(&w->h, 1);
    assert_int_equal(harness_home(&w->h, topic)->counts.msgs_in, 2);
    assert_true(harness_used(&w->h) > 0);
    (void)harness_turn(&w->h, 0);
    (void)shard_client_turn(w->p);
    assert_int_equal(w->p->pubs[0].accepted, 1);
    assert_int_equal(w->p->settles[0].first_seq, 1);
    assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes);
    assert_int_equal(harness_used(&w->h), 0);
}

static void refused_by(struct world *w, unsigned home)
{
    uint32_t topic = harness_topic(&w->h, "reject.a", home);
    struct shard_client *slow = shard_client_create(&w->h, home, NULL);
    client_subscribe(slow, 0, topic, &(struct amb_subscription_options){.credit_msgs = 1});
    client_open_pub(w->p, 0, topic, false);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 6; i++) {
        client_send(w->p, 0, 1, 16);
        harness_settle(&w->h);
    }
    /* One is delivered, three are in the log, two are refused; only those are spoken of. */
    assert_int_equal(w->p->pubs[0].accepted, 6);
    assert_int_equal(w->p->settle_count, 2);
    assert_int_equal(w->p->settles[0].batch, 5);
    assert_int_equal(w->p->settles[0].status, AMB_EREJECTED);
    assert_int_equal(w->p->settles[0].first_seq, 0);
    assert_int_equal(w->p->settles[1].batch, 6);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->msgs_rejected), 2);
    assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes);
    client_drain(slow, 0);
    assert_int_equal(slow->subs[0].msgs, 4);
    assert_int_equal(slow->subs[0].lost, 0);
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 2);
    client_drain(slow, 0);
}

static void test_a_full_topic_at_home_refuses(void **state)
{
    refused_by(*state, 0);
}

static void test_a_full_topic_elsewhere_refuses(void **state)
{
    refused_by(*state, 1);
}

static void test_a_topic_that_is_not_there_is_not_found(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 0);
    client_open_pub(w->p, 0, topic, false);
    w->h.shards[0].topics.at[topic] = NULL;
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->p->settles[0].status, AMB_ENOTFOUND);
    w->h.shards[0].topics.at[topic] = w->h.topics[topic][0];
}

static void test_what_comes_for_a_publisher_that_is_gone_is_nobodys(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 1);
    client_open_pub(w->p, 0, topic, true);
    client_send(w->p, 0, 1, 100);
    push(w);
    client_close_pub(w->p, 0);
    client_open_pub(w->p, 0, topic, true); /* the handle again: not its receipt, not its window */
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0);
    struct amb_publisher *again = amb_session_publisher(w->p->session, 0);
    assert_int_equal(again->freed, again->received); /* of the former alone, all settled */
    assert_int_equal(again->received, client_batch_bytes(1, 100));
    client_send(w->p, 0, 1, 100);
    push(w);
    client_close(w->p, false);
    harness_settle(&w->h);
    assert_int_equal(harness_home(&w->h, topic)->counts.msgs_in, 2);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_slow_holding_reader_keeps_the_window_and_not_the_receipt(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "a", 1);
    struct shard_client *slow = shard_client_create(&w->h, 1, NULL);
    client_subscribe(slow, 0, topic, &(struct amb_subscription_options){.credit_msgs = 1});
    client_open_pub(w->p, 0, topic, false);
    client_want(w->p, 0, 60016 * 2);
    harness_settle(&w->h);
    while (client_may_send(w->p, 0, 1, 60000)) {
        client_send(w->p, 0, 1, 60000);
        harness_settle(&w->h);
        assert_true(w->p->pubs[0].batches < 200);
    }
    /* All are accepted: the depth of the log, and the window on top of it. */
    assert_int_equal(w->p->pubs[0].accepted, w->p->pubs[0].batches);
    uint64_t behind = w->p->pubs[0].bytes - slow->subs[0].bytes;
    /* The log counts allocations, which are up to a quarter larger. */
    assert_in_range(behind, AMB_TOPIC_DEPTH / 5 * 4 + 2 * 1000 * 1000,
                    AMB_TOPIC_DEPTH + (2 << 20) + 2 * 60016);
    client_drain(slow, 0);
    assert_int_equal(slow->subs[0].msgs, w->p->pubs[0].messages);
    assert_int_equal(slow->subs[0].lost, 0);
    assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes);
}

/* Its memory is back before the link's next frame, which may need it. */
static void test_a_refused_batch_keeps_nothing_until_the_next_turn(void **state)
{
    struct world *w = *state;
    uint32_t topic = harness_topic(&w->h, "reject.a", 0);
    struct shard_client *slow = shard_client_create(&w->h, 0, NULL);
    client_subscribe(slow, 0, topic, &(struct amb_subscription_options){.credit_msgs = 1});
    client_open_pub(w->p, 0, topic, false);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 5; i++) {
        client_send(w->p, 0, 1, 16);
        harness_settle(&w->h);
    }
    const struct amb_shard *shard = &w->h.shards[0];
    uint64_t used = harness_used(&w->h), entries = shard->entries.pool.used;
    uint64_t rejected = amb_stat_get(&shard->stats->msgs_rejected);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(client_may_send(w->p, 0, 1, 30000));
        client_send(w->p, 0, 1, 30000);
    }
    push(w);
    assert_int_equal(amb_stat_get(&shard->stats->msgs_rejected), rejected + 2);
    assert_int_equal(harness_used(&w->h), used);
    assert_int_equal(shard->entries.pool.used, entries);
    client_drain(slow, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_a_refused_batch_keeps_nothing_until_the_next_turn),
        T(test_at_home_everything_happens_in_one_turn),
        T(test_elsewhere_receipt_and_grant_come_by_mail_and_the_buffer_comes_home),
        T(test_a_full_topic_at_home_refuses),
        T(test_a_full_topic_elsewhere_refuses),
        T(test_a_topic_that_is_not_there_is_not_found),
        T(test_what_comes_for_a_publisher_that_is_gone_is_nobodys),
        T(test_a_slow_holding_reader_keeps_the_window_and_not_the_receipt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
