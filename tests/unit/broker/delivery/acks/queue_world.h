/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the tests of queues share: a publisher of topic "t", and three that may be
 * members.
 * Threads: one. Memory: the test's.
 */
#pragma once

#include "broker/shard/entry.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_queue.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHARDS 3u
/* On one shard; and spread: topic, queue and members each elsewhere. */
#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, setup, teardown),                                        \
        cmocka_unit_test_setup_teardown(test, setup_spread, teardown)

struct world {
    struct shard_harness h;
    uint32_t topic, dead;
    struct shard_client *p, *a, *b, *c;
    struct harness_queue q;
    uint64_t seen[200]; /* how often each message came */
    unsigned where;     /* the queue's shard */
};

static const char queue_rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"small\"; max_messages = 10; full = \"drop-oldest\"; },\n"
    "           { match = \"reject\"; max_messages = 10; full = \"reject\"; },\n"
    "           { match = \"near\"; prefer = \"near\"; },\n"
    "           { match = \"kept\"; retain = { messages = 100; }; },\n"
    "           { match = \"$DLQ.>\"; full = \"drop-oldest\"; } );\n";

static inline void note(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                        const struct client_stamp *stamp)
{
    struct world *w = client->user;
    (void)frame;
    (void)index;
    if (stamp->number < 200 && frame->topic == w->topic) {
        w->seen[stamp->number]++;
    }
}

static inline void make(struct world *w, unsigned shards, unsigned where)
{
    harness_init(&w->h, shards, queue_rules);
    w->where = where % shards;
    w->topic = harness_topic(&w->h, "t", 0);
    w->dead = harness_topic(&w->h, "$DLQ.t", shards - 1);
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    w->p = shard_client_create(&w->h, 0, &maps);
    w->a = shard_client_create(&w->h, 0, &maps);
    w->b = shard_client_create(&w->h, 1 % shards, NULL);
    w->c = shard_client_create(&w->h, 2 % shards, &maps);
    struct shard_client *all[] = {w->a, w->b, w->c};
    for (unsigned i = 0; i < 3; i++) {
        all[i]->on_message = note;
        all[i]->user = w;
    }
    client_open_pub(w->p, 0, w->topic, false);
}

static inline int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    make(w, 1, 0);
    *state = w;
    return 0;
}

/* The queue is not where its topic is, nor where most members are. */
static inline int setup_spread(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    make(w, SHARDS, 1);
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < w->h.client_count; i++) {
        shard_client_destroy(&w->h.clients[i]);
    }
    harness_settle(&w->h);
    if (w->q.harness != NULL && harness_queue(&w->q) != NULL) {
        harness_queue_close(&w->q);
    }
    harness_fini(&w->h);
    free(w);
    return 0;
}

static inline void open_with(struct world *w, const struct amb_queue_options *options)
{
    harness_queue_open(&w->h, w->where, options, &w->q);
    harness_queue_read(&w->q, w->topic);
}

static inline void publish(struct world *w, unsigned batches, uint32_t count, uint64_t len)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, count, len);
        harness_settle(&w->h);
    }
}

static inline void ack_all(struct shard_client *client, uint64_t *from)
{
    while (*from < client->subs[0].last) {
        client_ack(client, 0, ++*from);
        client_release(client, 0, *from);
        harness_settle(client->harness);
    }
}

static inline void expect_seen(const struct world *w, uint64_t first, uint64_t last, uint64_t times)
{
    for (uint64_t i = first; i <= last; i++) {
        assert_int_equal(w->seen[i], times);
    }
}
