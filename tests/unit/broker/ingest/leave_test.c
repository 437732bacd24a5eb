/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch that is coming while its segment is retired: nothing more of it gets there. The link's
 * upcalls are made by hand, and so is its answer to where the body goes.
 */
#include "broker/ingest/leave.h"

#include "broker/ingest/ingest.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard_memory.h"
#include "broker/worker/orders.h"
#include "broker/worker/orders_session.h"
#include "tests/support/shard/shard_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define DATA 30000u
#define META 16u
#define HALF (DATA / 2)

/* A link's answer. */
static struct {
    uint8_t *at;
    void *cookie;
} body;

static uint8_t **body_of(struct amb_link *link, void **cookie)
{
    (void)link;
    *cookie = body.cookie;
    return body.at != NULL ? &body.at : NULL;
}

static int setup(void **state)
{
    static const struct client_options maps = {.may_map = true, .answers_offers = true};
    static struct amb_link_ops ops;
    struct shard_pair *w = shard_pair_begin(1, &maps);
    client_open_pub(w->p, 0, w->topic, true);
    client_subscribe(w->s, 0, w->topic, NULL);
    harness_settle(&w->h);
    ops = *w->p->session->link->ops;
    ops.body = body_of;
    w->p->session->link->ops = &ops;
    body.at = NULL;
    *state = w;
    return 0;
}

/* A batch's head, and the first half of its body. */
static struct amb_entry *begin_batch(struct shard_pair *w)
{
    const struct amb_frame frame = {
        .type = AMB_FRAME_BATCH, .seq = 1, .count = 1, .data_len = DATA, .meta_len = META};
    void *dst = NULL;
    struct amb_link_mem *mem = NULL;
    assert_int_equal(amb_ingest_head(w->p->session, &frame, &dst, &body.cookie, &mem), AMB_OK);
    memset(dst, 7, HALF);
    body.at = (uint8_t *)dst + HALF;
    w->p->pubs[0].batches = 1;
    return body.cookie;
}

static enum amb_status end_batch(struct shard_pair *w)
{
    const struct amb_record record = {.len = DATA};
    memset(body.at, 9, DATA - HALF);
    memcpy(body.at + DATA - HALF, &record, sizeof(record));
    body.at = NULL;
    return amb_ingest_body(w->p->session, body.cookie, AMB_OK);
}

static void retire(struct shard_pair *w, uint64_t maps)
{
    struct amb_order_groups_retire *order = amb_order_new(&amb_order_groups_retire, NULL, NULL);
    assert_non_null(order);
    order->tenant = AMB_TENANT_OPERATORS;
    order->maps = maps;
    amb_order_post(&w->h.shards[0], &order->order);
    harness_settle(&w->h);
}

static void the_rest_of_a_message_goes_to_other_memory(void **state)
{
    struct shard_pair *w = *state;
    const struct amb_entry *entry = begin_batch(w);
    struct amb_segment *former = entry->segment;
    uint8_t *place = body.at;
    retire(w, 2); /* Another group's. */
    assert_ptr_equal(entry->segment, former);
    assert_ptr_equal(body.at, place);
    retire(w, 1);
    assert_ptr_not_equal(entry->segment, former);
    assert_ptr_equal(entry->segment->pool, &w->h.shards[0].memory.bufpool);
    assert_ptr_equal(body.at, entry->data + HALF);
    assert_int_equal(end_batch(w), AMB_OK);
    harness_settle(&w->h);
    const struct client_delivery *got = client_delivery(w->s, 0, 1);
    assert_int_equal(got->frame.data_len, DATA);
    assert_int_equal(w->p->ended + w->s->ended, 0);
    client_drain(w->s, 0);
    w->h.shards[0].now_ns += INT64_C(1000000000);
    (void)amb_shard_memory_tick(&w->h.shards[0]);
    assert_int_equal(amb_shard_memory_retired(&w->h.shards[0]), 0);
}

static void without_memory_for_it_it_is_refused(void **state)
{
    struct shard_pair *w = *state;
    (void)begin_batch(w);
    struct amb_membudget *budget = w->h.shards[0].memory.bufpool.options.budget;
    uint64_t max = budget->max;
    budget->max = budget->used;
    retire(w, 1);
    assert_null(body.at);
    budget->max = max;
    assert_int_equal(w->p->settle_count, 1);
    assert_int_equal(w->p->settles[0].status, AMB_ENOMEM);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(w->p->ended + w->s->ended, 0);
}

static void nothing_comes_and_nothing_moves(void **state)
{
    struct shard_pair *w = *state;
    struct amb_entry *entry = begin_batch(w);
    uint8_t *place = body.at;
    body.at = NULL;
    retire(w, 1);
    body.at = place;
    body.cookie = (void *)((uintptr_t)entry | AMB_COOKIE_OTHER); /* a TERM's reason */
    amb_ingest_leave(w->p->session);
    assert_ptr_equal(body.at, place);
    body.cookie = entry;
    amb_ingest_leave(w->p->session);
    assert_ptr_not_equal(body.at, place);
    assert_int_equal(end_batch(w), AMB_OK);
    harness_settle(&w->h);
    client_drain(w->s, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
        T(the_rest_of_a_message_goes_to_other_memory),
        T(without_memory_for_it_it_is_refused),
        T(nothing_comes_and_nothing_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
