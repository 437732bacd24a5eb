/* SPDX-License-Identifier: Apache-2.0 */
/*
 * History: what topics keep, where readers may begin, on the topic's worker and on another one. A
 * publisher on shard 0, topics at home on shard 1; `near` reads there, `far` on shard 2.
 */
#include "broker/config/config.h"
#include "broker/topic/begin.h"
#include "broker/topic/history.h"
#include "broker/topic/replay.h"
#include "broker/topic/topic.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"ten\"; retain = { messages = 10; }; },\n"
    "           { match = \"bytes\"; retain = { bytes = \"64K\"; }; },\n"
    "           { match = \"age\"; retain = { age = \"10s\"; }; },\n"
    "           { match = \"full\"; retain = { messages = 1000; }; full = \"reject\";\n"
    "             max_messages = 20; },\n"
    "           { match = \"ttl\"; retain = { messages = 1000; }; ttl = \"1s\"; },\n"
    "           { match = \"many\"; retain = { messages = 100000; }; } );\n";

struct world {
    struct shard_harness h;
    struct shard_client *p, *near, *far;
    uint32_t topic;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 3, rules);
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    w->p = shard_client_create(&w->h, 0, &maps);
    w->near = shard_client_create(&w->h, 1, &maps);
    w->far = shard_client_create(&w->h, 2, NULL);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_forget(&w->h);
    harness_fini(&w->h);
    free(w);
    return 0;
}

static struct amb_topic *begin(struct world *w, const char *name)
{
    w->topic = harness_topic(&w->h, name, 1);
    client_open_pub(w->p, 0, w->topic, true);
    harness_settle(&w->h);
    return harness_home(&w->h, w->topic);
}

static void publish(struct world *w, unsigned batches, uint32_t count, uint64_t len)
{
    for (unsigned i = 0; i < batches; i++) {
        if (!client_may_send(w->p, 0, count, len)) {
            client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(count, len));
            harness_settle(&w->h);
        }
        client_send(w->p, 0, count, len);
        harness_settle(&w->h);
    }
}

static const struct amb_subscription_options plain = {
    .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 100000};

/* Both read from there; both shall get the messages from `first` on, `count` of them, and be told
 * that `lost` are missing before them. */
static void expect_from(struct world *w, enum amb_start start, uint64_t at, uint64_t first,
                        uint64_t count, uint64_t lost)
{
    struct shard_client *both[2] = {w->near, w->far};
    const struct amb_begin from = {.start = start, .at = at};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = both[i]->subs[0].former;
        client_subscribe_from(both[i], 0, w->topic, &plain, &from);
        harness_settle(&w->h);
        before = both[i]->subs[0].former;
        client_drain(both[i], 0);
        assert_int_equal(both[i]->subs[0].msgs, count);
        if (count > 0) {
            const struct client_delivery *delivery = client_delivery(both[i], 0, before + 1);
            assert_int_equal(delivery->frame.seq, first);
            assert_int_equal(delivery->stamp.number, first);
            assert_int_equal(delivery->frame.lost, lost);
            assert_int_equal(delivery->frame.status, lost == 0 ? AMB_LOSS_NONE : AMB_LOSS_TRIMMED);
        }
        client_unsubscribe(both[i], 0);
        harness_settle(&w->h);
    }
    assert_true(amb_list_is_empty(&harness_home(&w->h, w->topic)->lending.replays));
}

static void test_history_is_the_newest_messages_however_they_came(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "ten");
    expect_from(w, AMB_START_FIRST, 0, 0, 0, 0);
    publish(w, 4, 3, 32);                 /* 1 to 12 */
    assert_int_equal(home->log.msgs, 12); /* a batch is kept whole */
    expect_from(w, AMB_START_FIRST, 0, 3, 10, 0);
    expect_from(w, AMB_START_NEW, 0, 0, 0, 0);
    expect_from(w, AMB_START_LAST, 0, 12, 1, 0);
    expect_from(w, AMB_START_LAST_N, 4, 9, 4, 0);
    expect_from(w, AMB_START_LAST_N, 400, 3, 10, 0);
    expect_from(w, AMB_START_LAST_N, 0, 0, 0, 0);
    publish(w, 100, 1, 32);
    assert_int_equal(home->log.msgs, 10);
    expect_from(w, AMB_START_FIRST, 0, 103, 10, 0);
    assert_int_equal(home->counts.msgs_dropped, 0); /* nobody wanted what has gone */
}

static void test_a_sequence_that_has_gone_is_a_loss(void **state)
{
    struct world *w = *state;
    begin(w, "ten");
    publish(w, 30, 1, 32);
    expect_from(w, AMB_START_SEQ, 25, 25, 6, 0);
    expect_from(w, AMB_START_SEQ, 21, 21, 10, 0);
    expect_from(w, AMB_START_SEQ, 5, 21, 10, 16);
    expect_from(w, AMB_START_SEQ, 0, 21, 10, 20); /* from the very first one */
    expect_from(w, AMB_START_SEQ, 31, 0, 0, 0);
}

static void test_a_sequence_to_come_is_waited_for(void **state)
{
    struct world *w = *state;
    begin(w, "ten");
    publish(w, 2, 1, 32);
    const struct amb_begin from = {.start = AMB_START_SEQ, .at = 6};
    client_subscribe_from(w->near, 0, w->topic, &plain, &from);
    client_subscribe_from(w->far, 0, w->topic, &plain, &from);
    publish(w, 2, 3, 32); /* 3 to 8 */
    assert_int_equal(client_delivery(w->near, 0, 1)->frame.seq, 6);
    assert_int_equal(client_delivery(w->far, 0, 1)->frame.seq, 6);
    assert_int_equal(w->near->subs[0].lost + w->far->subs[0].lost, 0);
    client_drain(w->near, 0);
    client_drain(w->far, 0);
}

static void test_in_the_middle_of_a_batch_only_the_rest_is_given(void **state)
{
    struct world *w = *state;
    begin(w, "many");
    publish(w, 2, 8, 100);
    expect_from(w, AMB_START_SEQ, 4, 4, 13, 0);
    expect_from(w, AMB_START_LAST, 0, 16, 1, 0);
    expect_from(w, AMB_START_LAST_N, 9, 8, 9, 0);
}

static void test_a_time_finds_what_came_since(void **state)
{
    struct world *w = *state;
    begin(w, "many");
    uint64_t real_ns = UINT64_C(1700000000000000000);
    publish(w, 3, 1, 32);
    harness_pass(&w->h, AMB_NS_PER_SEC);
    uint64_t middle_ns = real_ns + (uint64_t)w->h.now_ns;
    publish(w, 4, 1, 32);
    expect_from(w, AMB_START_TIME, middle_ns, 4, 4, 0);
    expect_from(w, AMB_START_TIME, 1, 1, 7, 0);
    expect_from(w, AMB_START_TIME, UINT64_MAX, 0, 0, 0);
}

static void test_bytes_and_age_bound_history_too(void **state)
{
    struct world *w = *state;
    struct amb_topic *bytes = begin(w, "bytes");
    publish(w, 40, 1, 8000);
    assert_true(bytes->log.bytes <= 65536 && bytes->log.bytes > 65536 - 3 * 9000);
    client_close_pub(w->p, 0);
    harness_settle(&w->h);
    struct amb_topic *age = begin(w, "age");
    publish(w, 5, 1, 100);
    harness_pass(&w->h, 6 * AMB_NS_PER_SEC);
    publish(w, 5, 1, 100);
    assert_int_equal(age->log.msgs, 10);
    /* It goes although nothing moves. */
    harness_pass(&w->h, 5 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(age->log.msgs, 5);
    harness_pass(&w->h, 6 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(age->log.msgs, 0);
}

static void test_a_full_log_gives_up_history_before_it_refuses(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "full");
    publish(w, 60, 1, 32);
    assert_int_equal(home->counts.msgs_rejected, 0);
    assert_int_equal(home->counts.msgs_dropped, 0);
    assert_int_equal(home->log.msgs, 20);
    expect_from(w, AMB_START_FIRST, 0, 41, 20, 0);
}

static void test_what_expires_is_no_history(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "ttl");
    publish(w, 5, 1, 32);
    harness_pass(&w->h, 2 * AMB_NS_PER_SEC);
    harness_settle(&w->h);
    assert_int_equal(home->log.msgs, 0);
    publish(w, 2, 1, 32);
    expect_from(w, AMB_START_FIRST, 0, 6, 2, 0);
}

static void test_replay_is_paced_by_its_reader_and_holds_nobody_back(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "many");
    publish(w, 300, 1, 16000); /* 4.8 MB */
    const struct amb_subscription_options slow = {.slow = AMB_SLOW_DROP_OLDEST, .credit_msgs = 1};
    const struct amb_begin first = {.start = AMB_START_FIRST};
    client_subscribe_from(w->far, 0, w->topic, &slow, &first);
    harness_settle(&w->h);
    const struct amb_replay *replay =
        AMB_CONTAINER_OF(home->lending.replays.next, struct amb_replay, node);
    assert_true(replay->lend.position < 100); /* a depth, not all of it */
    assert_false(replay->is_near);
    publish(w, 10, 1, 16000);
    client_drain(w->far, 0);
    assert_int_equal(w->far->subs[0].msgs, 310);
    assert_int_equal(w->far->subs[0].lost, 0);
    assert_true(replay->is_near);
    publish(w, 1, 1, 16);
    assert_int_equal(w->far->subs[0].msgs, 311);
    client_drain(w->far, 0);
}

static void test_a_blocking_reader_of_history_holds_when_it_is_near_the_end(void **state)
{
    struct world *w = *state;
    begin(w, "many");
    publish(w, 300, 1, 16000);
    struct shard_client *both[2] = {w->near, w->far};
    for (unsigned i = 0; i < 2; i++) {
        const struct amb_subscription_options slow = {
            .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1};
        const struct amb_begin first = {.start = AMB_START_FIRST};
        client_subscribe_from(both[i], 0, w->topic, &slow, &first);
        harness_settle(&w->h);
        publish(w, 20, 1, 16000); /* not held back */
        client_drain(both[i], 0);
        for (unsigned n = 0; n < 400 && client_may_send(w->p, 0, 1, 16000); n++) {
            client_send(w->p, 0, 1, 16000);
            harness_settle(&w->h);
        }
        assert_false(client_may_send(w->p, 0, 1, 16000)); /* held back */
        client_drain(both[i], 0);
        assert_int_equal(both[i]->subs[0].lost, 0);
        assert_true(client_may_send(w->p, 0, 1, 16000));
        client_unsubscribe(both[i], 0);
        harness_settle(&w->h);
    }
}

static void test_a_reader_of_history_may_go_at_any_time(void **state)
{
    struct world *w = *state;
    struct amb_topic *home = begin(w, "many");
    publish(w, 100, 1, 16000);
    const struct amb_begin first = {.start = AMB_START_FIRST};
    const struct amb_subscription_options one = {.credit_msgs = 1};
    for (unsigned turns = 0; turns < 12; turns++) {
        struct shard_client *reader = shard_client_create(&w->h, 2, NULL);
        client_subscribe_from(reader, 0, w->topic, &one, &first);
        for (unsigned i = 0; i < turns; i++) {
            (void)harness_turn(&w->h, i % 3);
        }
        client_close(reader, false);
        harness_settle(&w->h);
        assert_true(amb_list_is_empty(&home->lending.replays));
    }
    assert_int_equal(home->log.msgs, 100);
}

static void test_history_does_not_stay_in_its_publishers_slots(void **state)
{
    struct world *w = *state;
    struct quota_user user;
    quota_user_init(&user);
    quota_user_owns(&user, w->p->session);
    struct amb_topic *home = begin(w, "ten");
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 64 << 10, 32, &lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    client_subscribe(w->near, 0, w->topic, &plain);
    for (unsigned i = 0; i < 5; i++) {
        client_commit(w->p, 0, &lease, i * 2, 2, 20000);
        harness_settle(&w->h);
    }
    client_drain(w->near, 0);
    client_unsubscribe(w->near, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 5);
    assert_int_equal(home->log.msgs, 10);
    memset(lease.base, 0xee, (size_t)lease.size); /* they are the publisher's again */
    expect_from(w, AMB_START_FIRST, 0, 1, 10, 0);
    expect_from(w, AMB_START_LAST, 0, 10, 1, 0);
    client_lease_fini(&lease);
    /* The copies, on another worker, are still host memory of their user, and outlive it. */
    client_close(w->p, false);
    harness_settle(&w->h);
    assert_true(amb_account_used(user.account, AMB_QUOTA_HOST_BYTES) >= 10 * 20000);
    harness_forget(&w->h);
    harness_settle(&w->h);
    quota_user_fini(&user);
}

static void test_what_cannot_be_known_is_said_so(void **state)
{
    struct world *w = *state;
    begin(w, "ten");
    publish(w, 3, 1, 32);
    struct shard_client *both[2] = {w->near, w->far};
    const struct amb_begin foreign = {.start = AMB_START_FIRST, .is_unknown = true};
    for (unsigned i = 0; i < 2; i++) {
        client_subscribe_from(both[i], 0, w->topic, &plain, &foreign);
        harness_settle(&w->h);
        const struct amb_frame *frame = &client_delivery(both[i], 0, 1)->frame;
        assert_int_equal(frame->seq, 1);
        assert_true(frame->lost == UINT64_MAX);
        assert_int_equal(frame->status, AMB_LOSS_BROKER_RESTART);
        client_drain(both[i], 0);
        assert_int_equal(client_delivery(both[i], 0, 2)->frame.lost, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_history_is_the_newest_messages_however_they_came),
        T(test_a_sequence_that_has_gone_is_a_loss),
        T(test_a_sequence_to_come_is_waited_for),
        T(test_in_the_middle_of_a_batch_only_the_rest_is_given),
        T(test_a_time_finds_what_came_since),
        T(test_bytes_and_age_bound_history_too),
        T(test_a_full_log_gives_up_history_before_it_refuses),
        T(test_what_expires_is_no_history),
        T(test_replay_is_paced_by_its_reader_and_holds_nobody_back),
        T(test_a_blocking_reader_of_history_holds_when_it_is_near_the_end),
        T(test_a_reader_of_history_may_go_at_any_time),
        T(test_history_does_not_stay_in_its_publishers_slots),
        T(test_what_cannot_be_known_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
