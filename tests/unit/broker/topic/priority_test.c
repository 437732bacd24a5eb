/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/priority: a publisher of each priority on shard 0, the topic at home on shard 1, readers
 * there and on shard 2.
 */
#include "broker/topic/priority.h"

#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "tests/support/shard/shard_queue.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { /* handles of the publisher, by rank */
    HIGH,
    NORMAL,
    LOW
};

static const char rules[] = "memory = { host = { size = \"24M\"; segment = \"2M\"; }; };\n"
                            "topics = ( { match = \"drop\"; max_messages = 4; full = "
                            "\"drop-oldest\"; slow = \"drop-oldest\"; },\n"
                            "           { match = \"kept\"; retain = { messages = 8; }; } );\n";

struct world {
    struct shard_harness h;
    struct shard_client *p, *near, *far, *both[2];
    uint32_t ids[3];   /* by rank */
    char order[2][64]; /* messages that came: h, n, l; near and far */
    unsigned came[2];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 3, rules);
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    w->p = shard_client_create(&w->h, 0, NULL);
    w->near = w->both[0] = shard_client_create(&w->h, 1, NULL);
    w->far = w->both[1] = shard_client_create(&w->h, 2, &maps);
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

static void topics_at(struct world *w, const char *name)
{
    w->ids[NORMAL] = harness_topic(&w->h, name, 1);
    w->ids[HIGH] = harness_priority(&w->h, w->ids[NORMAL], AMB_PRIORITY_HIGH);
    w->ids[LOW] = harness_priority(&w->h, w->ids[NORMAL], AMB_PRIORITY_LOW);
    for (unsigned rank = HIGH; rank <= LOW; rank++) {
        client_open_pub(w->p, rank, w->ids[rank], true);
    }
}

static void note(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                 const struct client_stamp *stamp)
{
    struct world *w = client->user;
    unsigned who = client == w->far;
    (void)index;
    (void)stamp;
    assert_true(w->came[who] < sizeof(w->order[0]) - 1);
    w->order[who][w->came[who]++] = frame->topic == w->ids[HIGH]     ? 'h'
                                    : frame->topic == w->ids[NORMAL] ? 'n'
                                                                     : 'l';
}

static void subscribe(struct world *w, const struct amb_subscription_options *options,
                      const struct amb_begin *begin)
{
    /* Readers come to topics in any order. */
    static const unsigned orders[2][3] = {{NORMAL, HIGH, LOW}, {LOW, HIGH, NORMAL}};
    for (unsigned i = 0; i < 2; i++) {
        w->both[i]->on_message = note;
        w->both[i]->user = w;
        client_subscribe_from(w->both[i], 0, w->ids[orders[i][0]], options, begin);
        client_attach(w->both[i], 0, w->ids[orders[i][1]]);
        client_attach(w->both[i], 0, w->ids[orders[i][2]]);
    }
    harness_settle(&w->h);
}

/* One batch for each letter. */
static void publish(struct world *w, const char *what, uint64_t len)
{
    for (; *what != '\0'; what++) {
        client_send(w->p, *what == 'h' ? HIGH : *what == 'n' ? NORMAL : LOW, 1, len);
        harness_settle(&w->h);
    }
}

/* Both give back one delivery after the other. */
static void expect_order(struct world *w, const char *order)
{
    for (unsigned i = 0; i < 2; i++) {
        client_drain(w->both[i], 0);
        assert_string_equal(w->order[i], order);
        memset(w->order[i], 0, sizeof(w->order[i]));
        w->came[i] = 0;
    }
}

static const struct amb_begin at_end = {.start = AMB_START_NEW};
static const struct amb_subscription_options one = {.credit_msgs = 1};

static void test_what_waits_goes_by_priority_and_in_order_within_it(void **state)
{
    struct world *w = *state;
    topics_at(w, "a");
    subscribe(w, &one, &at_end);
    publish(w, "lllnnlhnhh", 16);
    expect_order(w, "lhhhnnnlll");
    for (unsigned i = 0; i < 2; i++) {
        const struct client_sub *sub = &w->both[i]->subs[0];
        uint64_t last[3] = {0};
        assert_int_equal(sub->lost, 0);
        for (uint64_t n = 1; n <= sub->last; n++) {
            const struct client_delivery *d = client_delivery(w->both[i], 0, n);
            assert_int_equal(d->frame.seq, ++last[d->stamp.handle]);
            assert_int_equal(d->stamp.number, d->frame.seq);
        }
    }
}

static void test_a_topic_has_one_count_whatever_the_priority(void **state)
{
    struct world *w = *state;
    topics_at(w, "a");
    subscribe(w, NULL, &at_end);
    publish(w, "nhlhnnl", 16);
    for (unsigned i = 0; i < 2; i++) {
        for (uint64_t n = 1; n <= 7; n++) {
            const struct amb_frame *frame = &client_delivery(w->both[i], 0, n)->frame;
            assert_int_equal(frame->seq + frame->above, n);
            assert_int_equal(w->p->settles[n - 1].first_seq, n);
        }
    }
    /* Compare and set: the next is number 8, of whatever priority. */
    struct amb_topic *high = harness_home(&w->h, w->ids[HIGH]);
    assert_int_equal(high->log.next_seq + high->log.above, 8);
    expect_order(w, "nhlhnnl");
}

static void test_a_confirmation_says_what_is_of_the_others(void **state)
{
    struct world *w = *state;
    topics_at(w, "a");
    struct amb_publisher *publisher = amb_session_publisher(w->p->session, LOW);
    publisher->confirms = publisher->asks = true;
    publish(w, "nnl", 16);
    assert_int_equal(w->p->settle_count, 3);
    assert_int_equal(w->p->settles[2].first_seq, 3);
    assert_int_equal(w->p->settles[2].above, 2);
}

static void test_a_small_low_message_does_not_pass_a_large_high_one(void **state)
{
    struct world *w = *state;
    topics_at(w, "a");
    subscribe(w, &(struct amb_subscription_options){.credit_bytes = 4096, .copy = true}, &at_end);
    publish(w, "ll", 1024);
    publish(w, "h", 4000);
    publish(w, "lnl", 16);
    assert_string_equal(w->order[0], "ll");
    assert_string_equal(w->order[1], "ll");
    expect_order(w, "llhnll");
}

static void test_losses_are_counted_exactly_in_each_priority(void **state)
{
    struct world *w = *state;
    topics_at(w, "drop");
    subscribe(w, &one, &at_end);
    publish(w, "nlllllllllhnn", 16);
    expect_order(w, "nhnnllll");
    for (unsigned i = 0; i < 2; i++) {
        const struct client_sub *sub = &w->both[i]->subs[0];
        assert_int_equal(sub->lost, 5);
        const struct amb_frame *first_low = &client_delivery(w->both[i], 0, 5)->frame;
        assert_int_equal(first_low->lost, 5);
        assert_int_equal(first_low->seq, 6);
    }
}

static void test_whoever_gave_way_goes_on_when_the_higher_one_leaves(void **state)
{
    struct world *w = *state;
    topics_at(w, "a");
    subscribe(w, &one, &at_end);
    publish(w, "lhl", 16);
    for (unsigned i = 0; i < 2; i++) {
        struct amb_topic *high = harness_topic_on(&w->h, w->ids[HIGH], i + 1);
        struct amb_cursor *cursor =
            AMB_CONTAINER_OF(high->cursors.next, struct amb_cursor, of_topic);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    expect_order(w, "ll");
}

/* Where a reader begins: its first delivery's number in the topic, and its losses by its own
 * word. */
static void expect_begin(struct world *w, const struct amb_begin *begin, const char *order,
                         uint64_t lost)
{
    subscribe(w, &one, begin);
    for (unsigned i = 0; i < 2; i++) {
        client_drain(w->both[i], 0);
    }
    expect_order(w, order);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w->both[i]->subs[0].lost, lost);
        client_unsubscribe(w->both[i], 0);
    }
    harness_settle(&w->h);
}

static void test_a_beginning_is_a_number_of_the_topic(void **state)
{
    struct world *w = *state;
    topics_at(w, "kept");
    publish(w, "nhlhnnlhln", 16);
    expect_begin(w, &(struct amb_begin){.start = AMB_START_SEQ, .at = 4}, "hhnnnll", 0);
    expect_begin(w, &(struct amb_begin){.start = AMB_START_LAST_N, .at = 3}, "hnl", 0);
    expect_begin(w, &(struct amb_begin){.start = AMB_START_LAST}, "n", 0);
    expect_begin(w, &(struct amb_begin){.start = AMB_START_FIRST}, "hhhnnnnlll", 0);
    expect_begin(w, &(struct amb_begin){.start = AMB_START_SEQ, .at = 11}, "", 0);
}

static void test_what_is_gone_of_a_priority_is_exact_by_its_own_number_else_unknown(void **state)
{
    struct world *w = *state;
    topics_at(w, "kept");
    publish(w, "hhnhhhhhhhhhhh", 16); /* kept: the last 8 high ones, and the normal one */
    struct amb_topic *high = harness_home(&w->h, w->ids[HIGH]);
    struct amb_begun begun;
    amb_begin_find(high, &(struct amb_begin){.start = AMB_START_SEQ, .at = 4, .is_own = true},
                   &begun);
    assert_int_equal(begun.seq, 4);
    assert_int_equal(amb_log_at(&high->log, begun.position)->first_seq, 6);
    amb_begin_find(high, &(struct amb_begin){.start = AMB_START_SEQ, .at = 4}, &begun);
    assert_true(begun.is_unknown && begun.is_late);
    amb_begin_find(high, &(struct amb_begin){.start = AMB_START_SEQ, .at = 7}, &begun);
    assert_false(begun.is_unknown || begun.is_late);
    assert_int_equal(begun.seq, 6);
}

static void test_of_a_priority_that_is_all_gone_the_loss_is_unknown(void **state)
{
    struct world *w = *state;
    topics_at(w, "kept");
    publish(w, "nhh", 16);
    struct amb_topic *high = harness_home(&w->h, w->ids[HIGH]);
    amb_topic_forget(high, high->log.hi);
    struct amb_begun begun;
    amb_begin_find(high, &(struct amb_begin){.start = AMB_START_SEQ, .at = 2}, &begun);
    assert_true(begun.is_unknown && begun.is_late);
    assert_int_equal(begun.seq, 2); /* A gap before number 3 of its own, whenever that comes. */
    amb_begin_find(high, &(struct amb_begin){.start = AMB_START_SEQ, .at = 4}, &begun);
    assert_false(begun.is_unknown || begun.is_late);
    assert_int_equal(begun.seq, 3);
    struct amb_topic *low = harness_home(&w->h, w->ids[LOW]); /* It has never had any. */
    amb_begin_find(low, &(struct amb_begin){.start = AMB_START_SEQ, .at = 1}, &begun);
    assert_false(begun.is_unknown || begun.is_late);
}

static void test_a_replay_at_its_own_pace_goes_by_time_alone(void **state)
{
    struct world *w = *state;
    topics_at(w, "kept");
    publish(w, "hl", 16);
    w->h.now_ns += 3600 * AMB_NS_PER_SEC;
    publish(w, "h", 16); /* due an hour later, and nobody waits for it */
    subscribe(w, &(struct amb_subscription_options){.pace.is_original = true},
              &(struct amb_begin){.start = AMB_START_FIRST});
    expect_order(w, "hl");
    w->h.now_ns += 3600 * AMB_NS_PER_SEC;
    harness_settle(&w->h);
    expect_order(w, "h");
}

static void test_a_queue_gives_by_priority_also_what_comes_again(void **state)
{
    struct world *w = *state;
    topics_at(w, "a");
    struct harness_queue queue;
    harness_queue_open(&w->h, 2, NULL, &queue);
    for (unsigned rank = HIGH; rank <= LOW; rank++) {
        harness_queue_read(&queue, w->ids[rank]);
    }
    w->far->on_message = note;
    w->far->user = w;
    client_join(w->far, 0, &queue, &(struct amb_subscription_options){.credit_msgs = 2});
    harness_settle(&w->h);
    publish(w, "llnhlh", 16);
    /* The first one is refused, and gives way to what is higher; then it is the first again. */
    for (uint64_t n = 1; n <= 7; n++) {
        assert_int_equal(w->far->subs[0].last, n < 6 ? n + 1 : 7);
        client_say(w->far, 0, n, 0, 1, n == 1 ? AMB_ACK_KIND_NAK : AMB_ACK_KIND_ACK, 0);
        client_release(w->far, 0, n);
        harness_settle(&w->h);
    }
    assert_string_equal(w->order[1], "llhhnll");
    assert_int_equal(client_delivery(w->far, 0, 6)->frame.attempt, 1);
    assert_int_equal(client_delivery(w->far, 0, 6)->frame.seq, 1);
    assert_int_equal(harness_queue(&queue)->takes, 0);
    harness_queue_close(&queue);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_waits_goes_by_priority_and_in_order_within_it),
        TEST(test_a_topic_has_one_count_whatever_the_priority),
        TEST(test_a_confirmation_says_what_is_of_the_others),
        TEST(test_a_small_low_message_does_not_pass_a_large_high_one),
        TEST(test_losses_are_counted_exactly_in_each_priority),
        TEST(test_whoever_gave_way_goes_on_when_the_higher_one_leaves),
        TEST(test_a_beginning_is_a_number_of_the_topic),
        TEST(test_what_is_gone_of_a_priority_is_exact_by_its_own_number_else_unknown),
        TEST(test_of_a_priority_that_is_all_gone_the_loss_is_unknown),
        TEST(test_a_replay_at_its_own_pace_goes_by_time_alone),
        TEST(test_a_queue_gives_by_priority_also_what_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
