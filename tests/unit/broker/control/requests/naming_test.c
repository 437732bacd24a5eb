/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/naming: a publisher with a name that comes back is told what has come of it. Two shards
 * without threads.
 */
#include "broker/control/clients/control.h"
#include "broker/control/requests/naming.h"
#include "broker/control/requests/requests_private.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders_session.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct shard_harness harness;
static struct amb_control control;

static void count(void *owner, struct amb_order *order)
{
    unsigned *answers = order->context;
    assert_ptr_equal(owner, &control);
    (*answers)++;
    amb_order_free(order);
}

struct opening {
    struct amb_request request;
    bool is_over;
    uint64_t last_seq;
};

static void opened(void *owner, struct amb_order *order)
{
    struct opening *opening = order->context;
    assert_ptr_equal(owner, &control);
    assert_int_equal(order->status, AMB_OK);
    opening->is_over = true;
    opening->last_seq = AMB_CONTAINER_OF(order, struct amb_order_publisher_open, order)->last_seq;
    amb_order_free(order);
}

static struct amb_session_id id_of(const struct shard_client *client)
{
    return (struct amb_session_id){client->shard, client->session->index,
                                   client->session->generation};
}

/* Its session ends with a full link, and its next one is on another worker. */
static void test_who_comes_back_at_once_is_told_all_that_it_has_sent(void **state)
{
    (void)state;
    const unsigned batches = 2000; /* Heard in slices. */
    harness_init(&harness, 2, NULL);
    control.shards = harness.peers;
    control.shard_count = harness.count;
    assert_int_equal(amb_inbox_init(&control.inbox, &control), AMB_OK);
    for (unsigned i = 0; i < harness.count; i++) {
        harness.shards[i].control = &control.inbox;
    }
    uint32_t topic = harness_topic(&harness, "a", 0);
    struct shard_client *old = shard_client_create(&harness, 1, NULL);
    struct shard_client *young = shard_client_create(&harness, 0, NULL);
    struct amb_identity identity = {.shard = 1, .was_taken = true};
    client_open_pub(old, 0, topic, false);
    amb_session_publisher(old->session, 0)->seq = &identity.seq;
    for (unsigned i = 0; i < batches; i++) {
        client_send(old, 0, 1, 0);
    }
    (void)shard_client_turn(old);

    unsigned closed = 0;
    struct amb_order *order = amb_order_new(&amb_order_session_close, count, &closed);
    order->session = id_of(old);
    amb_order_post(harness.peers[1], order);
    struct amb_client client = {.control = &control};
    struct opening opening = {.request = {.client = &client}};
    struct amb_order_publisher_open *open =
        amb_order_new(&amb_order_publisher_open, opened, &opening);
    open->order.session = id_of(young);
    open->topic = topic;
    open->identity = &identity;
    amb_naming_post(&control, open, amb_naming_fence());
    for (unsigned i = 0; i < 1000 && !opening.is_over; i++) {
        (void)harness_turn(&harness, 0);
        (void)harness_turn(&harness, 1);
        (void)amb_inbox_run(&control.inbox);
    }
    assert_int_equal(opening.last_seq, batches);
    assert_int_equal(harness_home(&harness, topic)->counts.msgs_in, batches);
    assert_int_equal(identity.shard, 0);
    harness_settle(&harness);
    (void)amb_inbox_run(&control.inbox);
    assert_int_equal(identity.seq, batches); /* Nobody writes it behind the back of the new one. */
    assert_int_equal(closed, 1);

    old->session = NULL;
    old->is_closed = true;
    for (unsigned i = 0; i < harness.count; i++) {
        harness.shards[i].control = &harness.control;
    }
    amb_inbox_fini(&control.inbox);
    harness_fini(&harness);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_comes_back_at_once_is_told_all_that_it_has_sent),
    };
    return cmocka_run_group_tests_name("broker/naming", tests, NULL, NULL);
}
