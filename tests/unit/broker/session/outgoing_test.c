/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way out: each holds its entry until the link is done with it, and no longer.
 */
#include "broker/ingest/publisher.h"
#include "broker/session/outgoing.h"
#include "broker/shard/entry.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *c;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL);
    w->topic = harness_topic(&w->h, "t", 0);
    w->c = shard_client_create(&w->h, 0, NULL);
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

static struct amb_entry *entry_with_body(struct world *w)
{
    struct amb_shard *shard = &w->h.shards[0];
    struct amb_entry *entry = amb_pool_get(&shard->entries.pool);
    assert_non_null(entry);
    entry->refs = 1;
    entry->home = shard;
    entry->data_len = 16;
    entry->meta_len = 16;
    assert_int_equal(amb_bufpool_alloc(&shard->memory.bufpool, 32, &entry->payload.buf), AMB_OK);
    amb_entry_in_buffer(entry, AMB_PAYLOAD_BUFFER);
    memset(entry->payload.buf.data, 0, 32);
    entry->payload.buf.data[16] = 16; /* one record, of 16 bytes */
    return entry;
}

static enum amb_status deliver(struct world *w, struct amb_entry *entry)
{
    const struct amb_frame frame = {.type = AMB_FRAME_DELIVER,
                                    .topic = w->topic,
                                    .count = 1,
                                    .data_len = 16,
                                    .meta_len = 16,
                                    .number = w->c->subs[0].last + 1,
                                    .seq = 1};
    w->c->subs[0].is_named[w->topic] = true;
    return amb_outgoing_send(w->c->session, &frame, entry->data, entry->data + 16, entry);
}

static void test_a_queued_frame_holds_its_entry_until_it_is_settled(void **state)
{
    struct world *w = *state;
    struct amb_entry *entry = entry_with_body(w);
    assert_int_equal(deliver(w, entry), AMB_OK);
    amb_entry_unref(entry, &w->h.shards[0]);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 1);
    assert_true(harness_used(&w->h) > 0);
    harness_settle(&w->h);
    assert_int_equal(w->c->subs[0].last, 1);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_frame_for_a_link_that_is_down_is_given_back_at_once(void **state)
{
    struct world *w = *state;
    amb_sim_break(w->c->session->link);
    (void)harness_turn(&w->h, 0);
    struct amb_entry *entry = entry_with_body(w);
    assert_int_equal(deliver(w, entry), AMB_ELOST);
    assert_int_equal(entry->refs, 1);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 0);
    amb_entry_unref(entry, &w->h.shards[0]);
}

static void test_a_frame_in_a_link_that_breaks_is_given_back(void **state)
{
    struct world *w = *state;
    struct amb_entry *entry = entry_with_body(w);
    assert_int_equal(deliver(w, entry), AMB_OK);
    amb_entry_unref(entry, &w->h.shards[0]);
    amb_sim_break(w->c->session->link);
    (void)harness_turn(&w->h, 0);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 0);
}

static void publish_unread(struct world *w, struct shard_client *deaf, unsigned count)
{
    for (unsigned i = 0; i < count && deaf->ended == 0; i++) {
        client_send(deaf, 0, 1, 0);
        amb_link_flush(deaf->link);
        (void)harness_turn(&w->h, 0);
    }
}

static void test_a_client_that_publishes_and_never_reads_is_ended(void **state)
{
    struct world *w = *state;
    struct shard_client *deaf =
        shard_client_create(&w->h, 0, &(struct client_options){.link_bytes_max = 1});
    client_open_pub(deaf, 0, w->topic, true);
    /* It knows that its window moves without having to read it. */
    publish_unread(w, deaf, AMB_SESSION_RECEIPTS_MAX + 100);
    assert_int_equal(deaf->ended, 0); /* It may not have had the time. */
    w->h.now_ns += AMB_SESSION_DEAF_NS / 2;
    (void)shard_client_turn(deaf); /* It has read something. */
    publish_unread(w, deaf, 100);
    w->h.now_ns += AMB_SESSION_DEAF_NS - AMB_NS_PER_MS;
    publish_unread(w, deaf, 1);
    assert_int_equal(deaf->ended, 0);
    w->h.now_ns += AMB_NS_PER_MS;
    publish_unread(w, deaf, 1);
    assert_true(deaf->ended > 0);
    assert_int_equal(deaf->ended_why, AMB_ELIMIT);
    assert_true(w->h.shards[0].outgoing.pool.used <= AMB_SESSION_RECEIPTS_MAX + 202);
    client_close(deaf, false);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 0);
}

static void test_what_waits_for_a_client_is_bounded_within_that_time_too(void **state)
{
    struct world *w = *state;
    struct shard_client *deaf =
        shard_client_create(&w->h, 0, &(struct client_options){.link_bytes_max = 1});
    client_open_pub(deaf, 0, w->topic, true);
    publish_unread(w, deaf, AMB_SESSION_RECEIPTS_BURST + 100);
    assert_int_equal(deaf->ended_why, AMB_ELIMIT);
    assert_true(w->h.shards[0].outgoing.pool.used <= AMB_SESSION_RECEIPTS_BURST);
    client_close(deaf, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_a_queued_frame_holds_its_entry_until_it_is_settled),
        T(test_a_frame_for_a_link_that_is_down_is_given_back_at_once),
        T(test_a_frame_in_a_link_that_breaks_is_given_back),
        T(test_a_client_that_publishes_and_never_reads_is_ended),
        T(test_what_waits_for_a_client_is_bounded_within_that_time_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
