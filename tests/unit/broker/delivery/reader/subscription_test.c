/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions: credit, releases in any order, ends. Everything on one shard.
 */
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/subscription.h"
#include "tests/support/shard/shard_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct shard_pair *w =
        shard_pair_begin(1, &(struct client_options){.may_map = true, .answers_offers = true});
    client_open_pub(w->p, 0, w->topic, false);
    *state = w;
    return 0;
}

static void publish(struct shard_pair *w, unsigned batches, uint32_t count, uint64_t len)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, count, len);
        harness_settle(&w->h);
    }
}

static struct amb_subscription *sub_of(struct shard_pair *w, uint32_t handle)
{
    return amb_session_subscription(w->s->session, handle);
}

static void test_credit_in_messages_is_exact(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 5});
    publish(w, 4, 2, 16);
    assert_int_equal(w->s->subs[0].msgs, 4); /* six would be too many */
    client_release(w->s, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].msgs, 6);
    client_drain(w->s, 0);
    assert_int_equal(w->s->subs[0].msgs, 8);
    assert_int_equal(w->s->subs[0].lost, 0);
}

static void test_credit_in_bytes_is_exact(void **state)
{
    struct shard_pair *w = *state;
    uint64_t bytes = client_batch_bytes(1, 1000);
    client_subscribe(w->s, 0, w->topic,
                     &(struct amb_subscription_options){.credit_bytes = 3 * bytes});
    publish(w, 5, 1, 1000);
    assert_int_equal(w->s->subs[0].last, 3);
    client_release(w->s, 0, 2);
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].last, 5);
    client_drain(w->s, 0);
}

static void test_one_delivery_always_passes_when_nothing_is_out(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(
        w->s, 0, w->topic,
        &(struct amb_subscription_options){.credit_msgs = 1, .credit_bytes = 1, .copy = true});
    publish(w, 2, 10, 500);
    assert_int_equal(w->s->subs[0].last, 1);
    client_release(w->s, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].last, 2);
    client_drain(w->s, 0);
}

static void test_who_maps_gets_a_second_message_however_large(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, &(struct amb_subscription_options){.credit_bytes = 1});
    publish(w, 4, 1, 1000);
    assert_int_equal(w->s->subs[0].last, 2);
    client_release(w->s, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].last, 3);
    client_drain(w->s, 0);
    /* Messages are counted all the same. */
    client_subscribe(w->s, 1, w->topic,
                     &(struct amb_subscription_options){.credit_msgs = 1, .credit_bytes = 1});
    publish(w, 2, 1, 1000);
    assert_int_equal(w->s->subs[1].last, 1);
    client_drain(w->s, 0);
    client_drain(w->s, 1);
}

/* A program that keeps one message and waits for the next: batches are not its doing. */
static void test_who_keeps_one_message_gets_the_next_batch_however_many_are_in_it(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic,
                     &(struct amb_subscription_options){.credit_msgs = 2, .copy = true});
    publish(w, 1, 1, 16);
    publish(w, 3, 5, 16);
    assert_int_equal(w->s->subs[0].last, 2);
    for (uint64_t number = 2; number < 4; number++) { /* Each time it is done with the newer one. */
        assert_int_equal(amb_subscription_release_range(sub_of(w, 0), number, 1), AMB_OK);
        harness_settle(&w->h);
        assert_int_equal(w->s->subs[0].last, number + 1);
    }
    client_drain(w->s, 0);
}

/* The same with bytes, to a client that maps. */
static void test_who_keeps_the_oldest_message_still_gets_a_second_one(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, &(struct amb_subscription_options){.credit_bytes = 1});
    publish(w, 4, 1, 1000);
    assert_int_equal(w->s->subs[0].last, 2);
    assert_int_equal(amb_subscription_release_range(sub_of(w, 0), 2, 1), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].last, 3);
    client_drain(w->s, 0);
}

static void test_credit_has_defaults_and_a_maximum(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    client_subscribe(
        w->s, 1, w->topic,
        &(struct amb_subscription_options){.credit_msgs = UINT64_MAX, .credit_bytes = UINT64_MAX});
    assert_int_equal(sub_of(w, 0)->options.credit_msgs, AMB_CREDIT_MSGS_DEFAULT);
    assert_int_equal(sub_of(w, 0)->options.credit_bytes, AMB_CREDIT_BYTES_DEFAULT);
    assert_int_equal(sub_of(w, 1)->options.credit_msgs, AMB_CREDIT_MSGS_MAX);
    assert_int_equal(sub_of(w, 1)->options.credit_bytes, AMB_CREDIT_BYTES_MAX);
    /* A queue adds up what its members have, and no more subscriptions than topics' slots are. */
    assert_true(AMB_CREDIT_BYTES_MAX <= UINT64_MAX / (UINT64_C(1) << 20) / 2);
}

static void test_releases_out_of_order_give_credit_and_memory_back(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 10});
    publish(w, 1, 1, 3000); /* by copy: the segment is being mapped */
    publish(w, 9, 1, 3000);
    uint64_t used = harness_used(&w->h);
    assert_true(used >= 9 * 3000);
    client_release_range(w->s, 0, 4, 3);
    harness_settle(&w->h);
    assert_true(harness_used(&w->h) < used);
    assert_int_equal(sub_of(w, 0)->released, 0);
    assert_int_equal(sub_of(w, 0)->msgs_out, 7);
    client_release_range(w->s, 0, 3, 3); /* two of them again: ignored */
    harness_settle(&w->h);
    assert_int_equal(sub_of(w, 0)->msgs_out, 6);
    client_release(w->s, 0, 2);
    harness_settle(&w->h);
    assert_int_equal(sub_of(w, 0)->released, 6);
    publish(w, 6, 1, 3000);
    assert_int_equal(w->s->subs[0].last, 16);
    client_release_range(w->s, 0, 7, 10);
    harness_settle(&w->h);
    assert_int_equal(sub_of(w, 0)->released, 16);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(w->s->session->mapped_bytes, 0);
}

static void test_numbers_that_were_not_given_are_protocol_errors(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 3, 1, 16);
    struct amb_subscription *sub = sub_of(w, 0);
    assert_int_equal(amb_subscription_release(sub, 4), AMB_EPROTO);
    assert_int_equal(amb_subscription_release_range(sub, 0, 1), AMB_EPROTO);
    assert_int_equal(amb_subscription_release_range(sub, 1, 0), AMB_EPROTO);
    assert_int_equal(amb_subscription_release_range(sub, 3, 2), AMB_EPROTO);
    assert_int_equal(amb_subscription_release_range(sub, 4, 1), AMB_EPROTO);
    assert_int_equal(amb_subscription_release_range(sub, UINT64_MAX, UINT32_MAX), AMB_EPROTO);
    assert_int_equal(sub->msgs_out, 3);
    assert_int_equal(amb_subscription_release(sub, 2), AMB_OK);
    assert_int_equal(amb_subscription_release(sub, 1), AMB_OK); /* older news */
    assert_int_equal(sub->released, 2);
    client_release(w->s, 0, 9);
    harness_settle(&w->h);
    assert_int_equal(w->s->ended_why, AMB_EPROTO);
}

/* Or one frame of 128 bytes would keep a worker busy for seconds. */
static void test_a_range_costs_no_more_than_what_is_out(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    struct amb_subscription *sub = sub_of(w, 0);
    sub->delivered = sub->released = sub->told = UINT64_C(1) << 60;
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(amb_subscription_release_range(sub, 1 + i, UINT32_MAX), AMB_OK);
    }
    sub->delivered = sub->released = sub->told = 0;
}

/* While the oldest stays out, ranges over all behind it are said again and again, from anywhere. */
static void test_a_range_said_again_costs_next_to_nothing(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 1000, 1, 16);
    struct amb_subscription *sub = sub_of(w, 0);
    assert_int_equal(sub->delivered, 1000);
    for (uint64_t i = 3; i <= 1000; i += 2) { /* Each by itself, then all between. */
        assert_int_equal(amb_subscription_release_range(sub, i, 1), AMB_OK);
    }
    for (uint64_t round = 0; round < 1000; round++) {
        uint64_t from = 2 + round * 7 % 900;
        assert_int_equal(amb_subscription_release_range(sub, from, (uint32_t)(1001 - from)),
                         AMB_OK);
    }
    assert_in_range(sub->looked, 1000, 10000);
    assert_int_equal(sub->msgs_out, 1);
    assert_int_equal(sub->released, 0);
    client_drain(w->s, 0);
    assert_int_equal(sub->released, 1000);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_the_table_of_deliveries_grows_with_what_is_out(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    for (unsigned i = 0; i < 50; i++) {
        for (unsigned j = 0; j < 20; j++) {
            client_send(w->p, 0, 1, 16);
        }
        harness_settle(&w->h);
    }
    assert_int_equal(w->s->subs[0].last, 1000);
    client_check_held(w->s, 0);
    client_release_range(w->s, 0, 2, 998);
    harness_settle(&w->h);
    client_check_held(w->s, 0);
    assert_int_equal(sub_of(w, 0)->msgs_out, 2);
    client_drain(w->s, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void count_gone(void *arg)
{
    unsigned *gone = arg;
    (*gone)++;
}

static void test_an_ended_one_goes_when_everything_is_back(void **state)
{
    struct shard_pair *w = *state;
    unsigned gone = 0;
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 4, 1, 16);
    amb_subscription_end(sub_of(w, 0), count_gone, &gone);
    publish(w, 1, 1, 16);
    assert_int_equal(w->s->subs[0].last, 4); /* nothing more */
    client_release_range(w->s, 0, 3, 2);
    harness_settle(&w->h);
    assert_int_equal(gone, 0);
    assert_non_null(sub_of(w, 0));
    client_release(w->s, 0, 2); /* with 3 and 4 that is all */
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(gone, 0);
    client_release(w->s, 0, 4); /* and this is the client's last word */
    harness_settle(&w->h);
    assert_int_equal(gone, 1);
    assert_null(sub_of(w, 0));
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_an_ended_one_that_holds_nothing_goes_at_once(void **state)
{
    struct shard_pair *w = *state;
    unsigned gone = 0;
    client_subscribe(w->s, 0, w->topic, NULL);
    amb_subscription_end(sub_of(w, 0), count_gone, &gone);
    assert_int_equal(gone, 1);
    assert_null(sub_of(w, 0));
}

static void test_an_ended_one_goes_with_its_session(void **state)
{
    struct shard_pair *w = *state;
    unsigned gone = 0;
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 2, 1, 16);
    amb_subscription_end(sub_of(w, 0), count_gone, &gone);
    client_close(w->s, false);
    assert_int_equal(gone, 1);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_handles_deliveries_are_counted_on(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 3, 1, 16);
    client_drain(w->s, 0);
    client_unsubscribe(w->s, 0);
    harness_settle(&w->h);
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 2, 1, 16);
    assert_int_equal(w->s->subs[0].last, 5);
    assert_int_equal(client_delivery(w->s, 0, 4)->frame.seq, 4);
    assert_int_equal(w->s->subs[0].lost, 0);
    client_drain(w->s, 0);
}

static void test_a_late_release_of_the_former_owner_gives_nothing_back(void **state)
{
    struct shard_pair *w = *state;
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 4, 1, 16);
    client_drain(w->s, 0);
    client_unsubscribe(w->s, 0);
    harness_settle(&w->h);
    client_subscribe(w->s, 0, w->topic, NULL);
    publish(w, 4, 1, 16); /* deliveries 5 to 8, which the client holds */
    uint64_t held = w->s->session->mapped_bytes;
    assert_true(held > 0);
    client_release_range(w->s, 0, 2, 2); /* frames that a counter has overtaken */
    client_release_range(w->s, 0, 1, 4);
    client_release(w->s, 0, 3);
    harness_settle(&w->h);
    assert_int_equal(w->s->session->mapped_bytes, held);
    assert_int_equal(sub_of(w, 0)->released, 4);
    client_check_held(w->s, 0);
    client_drain(w->s, 0);
    assert_int_equal(w->s->session->mapped_bytes, 0);
    assert_int_equal(w->s->ended, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
        T(test_credit_in_messages_is_exact),
        T(test_credit_in_bytes_is_exact),
        T(test_one_delivery_always_passes_when_nothing_is_out),
        T(test_who_maps_gets_a_second_message_however_large),
        T(test_who_keeps_one_message_gets_the_next_batch_however_many_are_in_it),
        T(test_who_keeps_the_oldest_message_still_gets_a_second_one),
        T(test_credit_has_defaults_and_a_maximum),
        T(test_releases_out_of_order_give_credit_and_memory_back),
        T(test_numbers_that_were_not_given_are_protocol_errors),
        T(test_a_range_costs_no_more_than_what_is_out),
        T(test_a_range_said_again_costs_next_to_nothing),
        T(test_the_table_of_deliveries_grows_with_what_is_out),
        T(test_an_ended_one_goes_when_everything_is_back),
        T(test_an_ended_one_that_holds_nothing_goes_at_once),
        T(test_an_ended_one_goes_with_its_session),
        T(test_a_handles_deliveries_are_counted_on),
        T(test_a_late_release_of_the_former_owner_gives_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
