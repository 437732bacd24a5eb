/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leased batches from COMMIT to FREED: where each reader is served from, and when slots are free
 * again. A client that breaks the rules hurts itself, and nobody else.
 */
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/ingest/commit.h"
#include "broker/ingest/publisher.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOT UINT64_C(65536)
#define SLOTS 32u

struct world {
    struct shard_harness h;
    uint32_t topic, verified;
    struct shard_client *p, *mapper, *copier, *other;
    struct client_lease lease;
};

static const char config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"v\"; trust = \"verify\"; } );\n";
static const struct client_options maps = {.may_map = true, .answers_offers = true};

static void make(void **state, unsigned shards, unsigned home, unsigned readers)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, shards, config);
    w->topic = harness_topic(&w->h, "t", home);
    w->verified = harness_topic(&w->h, "v", home);
    w->p = shard_client_create(&w->h, 0, &maps);
    w->mapper = shard_client_create(&w->h, readers, &maps);
    w->copier = shard_client_create(&w->h, readers, NULL);
    w->other = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->p, 0, w->topic, true);
    client_open_pub(w->p, 1, w->verified, true);
    assert_int_equal(client_lease_open(w->p, SLOT, SLOTS, &w->lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &w->lease), AMB_OK);
    *state = w;
}

static int setup(void **state)
{
    make(state, 1, 0, 0);
    return 0;
}

static int setup_three(void **state)
{
    make(state, 3, 1, 2);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    client_lease_fini(&w->lease);
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void commit(struct world *w, uint32_t first, uint32_t count, uint32_t len)
{
    client_commit(w->p, 0, &w->lease, first, count, len);
    harness_settle(&w->h);
}

/* Has the mapper map the segment, by a message that it gets by copy. */
static void warm_up(struct world *w)
{
    commit(w, 0, 1, 100);
    client_drain(w->mapper, 0);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void expect_end(struct world *w)
{
    harness_settle(&w->h);
    assert_int_equal(w->p->ended, 1);
    assert_int_equal(w->p->ended_why, AMB_EPROTO);
    assert_int_equal(w->mapper->ended + w->other->ended, 0);
}

/* Good ones ------------------------------------------------------------------------------------ */

static void test_nobody_wants_it_and_its_slots_are_free_at_once(void **state)
{
    struct world *w = *state;
    commit(w, 0, 1, 60000);
    commit(w, 3, 4, 60000);
    assert_int_equal(w->p->freed, 2);
    assert_int_equal(w->p->freed_frames, 0);
    assert_int_equal(w->p->pubs[0].accepted, 2);
    assert_int_equal(w->p->settle_count, 2);
    assert_int_equal(w->p->settles[1].status, AMB_OK);
    assert_int_equal(w->p->settles[1].first_seq, 2);
    assert_int_equal(w->p->pubs[0].window, AMB_WINDOW_FIRST);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->commits_in), 2);
}

static void test_a_mapped_reader_gets_the_very_bytes(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    commit(w, 5, 3, 50000);
    const struct client_delivery *got = client_delivery(w->mapper, 0, 2);
    assert_int_equal(got->frame.type, AMB_FRAME_MAP_LEASED);
    assert_int_equal(got->frame.count, 3);
    assert_int_equal(got->frame.seq, 2);
    assert_int_equal(got->frame.segment, w->lease.segment);
    assert_int_equal(w->p->freed, 1);
    w->lease.base[5 * SLOT] = 99; /* the reader sees the publisher's changes */
    for (unsigned i = 0; i < w->mapper->segment_count; i++) {
        if (w->mapper->segments[i].id == w->lease.segment) {
            assert_ptr_equal(got->payload, w->mapper->segments[i].base + 5 * SLOT);
            assert_int_equal(w->mapper->segments[i].base[5 * SLOT], 99);
        }
    }
    client_drain(w->mapper, 0);
    assert_int_equal(w->p->freed, 2);
}

/* trust = "auto": a payload that its publisher can still write is for readers of its own user. */
static void test_another_users_reader_has_bytes_that_nobody_changes(void **state)
{
    struct world *w = *state;
    struct amb_publisher *publisher = amb_session_publisher(w->p->session, 0);
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    w->mapper->session->user = 7;
    commit(w, 5, 2, 50000); /* The publisher's worker has not heard of that reader yet. */
    assert_int_equal(client_delivery(w->mapper, 0, 2)->frame.type, AMB_FRAME_DELIVER);
    assert_int_equal(client_delivery(w->mapper, 0, 3)->frame.type, AMB_FRAME_DELIVER);
    publisher->copies = true;
    commit(w, 8, 1, 50000);
    client_drain(w->mapper, 0);
    commit(w, 9, 1, 50000);
    const struct client_delivery *got = client_delivery(w->mapper, 0, 5);
    assert_int_equal(got->frame.type, AMB_FRAME_MAP); /* One copy, for all such readers. */
    assert_int_not_equal(got->frame.segment, w->lease.segment);
    publisher->copies = false;
    publisher->lease_user = AMB_USER_ANY; /* trust = "publisher" */
    commit(w, 10, 1, 50000);
    assert_int_equal(client_delivery(w->mapper, 0, 6)->frame.type, AMB_FRAME_MAP_LEASED);
    client_drain(w->mapper, 0);
}

/* Two clients of which the kernel tells no user may be two users. */
static void test_nobody_reads_what_nobody_can_still_write(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    amb_session_publisher(w->p->session, 0)->lease_user = AMB_USER_NOBODY;
    w->mapper->session->user = AMB_USER_NOBODY;
    commit(w, 5, 1, 50000);
    assert_int_equal(client_delivery(w->mapper, 0, 2)->frame.type, AMB_FRAME_DELIVER);
    client_drain(w->mapper, 0);
}

static void test_by_copy_each_message_is_a_delivery(void **state)
{
    struct world *w = *state;
    client_subscribe(w->copier, 0, w->topic, NULL);
    commit(w, 4, 3, 1000);
    assert_int_equal(w->copier->subs[0].last, 3);
    for (uint64_t i = 1; i <= 3; i++) {
        const struct client_delivery *got = client_delivery(w->copier, 0, i);
        assert_int_equal(got->frame.type, AMB_FRAME_DELIVER);
        assert_int_equal(got->frame.count, 1);
        assert_int_equal(got->frame.seq, i);
        assert_int_equal(got->stamp.number, i);
        assert_int_equal(got->frame.lost, 0);
    }
    client_drain(w->copier, 0);
    assert_int_equal(w->p->freed, 1); /* a batch that the link has taken holds no slot */
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->copies), 3);
}

static void test_properties_go_with_each_message_of_a_copy(void **state)
{
    struct world *w = *state;
    client_subscribe(w->copier, 0, w->topic, NULL);
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    const struct client_commit one = {.offset = 2 * SLOT, .len = 300, .props_len = 1001};
    client_commit_as(w->p, 0, &w->lease, &one);
    harness_settle(&w->h);
    const struct client_delivery *got = client_delivery(w->copier, 0, 2);
    assert_int_equal(got->frame.meta_len, 16 + 1008);
    assert_int_equal(got->frame.data_len, 304);
    got = client_delivery(w->mapper, 0, 2);
    assert_int_equal(got->frame.type, AMB_FRAME_MAP_LEASED);
    assert_int_equal(got->frame.meta_len, 24 + 1008);
    client_drain(w->mapper, 0);
    client_drain(w->copier, 0);
}

static void test_a_batch_by_copy_goes_on_as_credit_comes(void **state)
{
    struct world *w = *state;
    const struct amb_subscription_options two = {.credit_msgs = 2};
    client_subscribe(w->copier, 0, w->topic, &two);
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    client_drain(w->copier, 0);
    commit(w, 1, 5, 1000);
    assert_int_equal(w->copier->subs[0].msgs, 3); /* one before, two of five */
    assert_int_equal(w->mapper->subs[0].msgs, 6);
    client_drain(w->mapper, 0);
    assert_int_equal(w->p->freed, 1);
    client_drain(w->copier, 0);
    assert_int_equal(w->copier->subs[0].msgs, 6);
    assert_int_equal(w->copier->subs[0].lost, 0);
    assert_int_equal(w->p->freed, 2);
}

static void test_what_is_dropped_of_a_begun_batch_is_counted(void **state)
{
    struct world *w = *state;
    const struct amb_subscription_options two = {.credit_msgs = 2, .slow = AMB_SLOW_DROP_OLDEST};
    client_subscribe(w->copier, 0, w->topic, &two);
    commit(w, 1, 5, 1000);
    assert_int_equal(w->copier->subs[0].msgs, 2);
    assert_true(harness_shed(harness_home(&w->h, w->topic)));
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 1);
    commit(w, 1, 1, 1000);
    client_drain(w->copier, 0);
    assert_int_equal(w->copier->subs[0].msgs, 3);
    assert_int_equal(w->copier->subs[0].lost, 3);
}

static void test_one_buffer_serves_every_reader(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    client_subscribe(w->copier, 0, w->topic, NULL);
    const struct amb_subscription_options copy = {.copy = true};
    client_subscribe(w->mapper, 1, w->topic, &copy);
    warm_up(w);
    client_drain(w->mapper, 1);
    client_drain(w->copier, 0);
    uint64_t before = harness_used(&w->h);
    commit(w, 7, 1, 60000);
    assert_true(harness_used(&w->h) - before <= 64); /* records, and not one byte of payload */
    assert_int_equal(client_delivery(w->mapper, 0, 2)->frame.type, AMB_FRAME_MAP_LEASED);
    assert_int_equal(client_delivery(w->mapper, 1, 2)->frame.type, AMB_FRAME_DELIVER);
    assert_int_equal(client_delivery(w->copier, 0, 2)->frame.type, AMB_FRAME_DELIVER);
    client_drain(w->mapper, 0);
    client_drain(w->mapper, 1);
    client_drain(w->copier, 0);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_past_the_mapped_cap_it_is_copied(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    w->mapper->session->mapped_max = 3 * SLOT + 4096;
    for (uint32_t i = 1; i <= 4; i++) {
        commit(w, i, 1, 65000);
    }
    for (uint64_t i = 2; i <= 4; i++) {
        assert_int_equal(client_delivery(w->mapper, 0, i)->frame.type, AMB_FRAME_MAP_LEASED);
    }
    assert_int_equal(client_delivery(w->mapper, 0, 5)->frame.type, AMB_FRAME_DELIVER);
    client_drain(w->mapper, 0);
}

static void test_batches_and_commits_keep_their_order(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    for (uint32_t i = 0; i < 12; i++) {
        if (i % 3 == 0) {
            client_commit(w->p, 0, &w->lease, i, 1, 200);
        } else {
            client_send(w->p, 0, 2, 200);
        }
    }
    harness_settle(&w->h);
    uint64_t next = 1;
    for (uint64_t i = 1; i <= w->mapper->subs[0].last; i++) {
        assert_int_equal(client_delivery(w->mapper, 0, i)->stamp.number, next);
        next += client_delivery(w->mapper, 0, i)->frame.count;
    }
    assert_int_equal(next, 4 + 2 * 8 + 1);
    client_drain(w->mapper, 0);
}

static void test_early_ones_are_told_in_ranges(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    for (uint32_t i = 0; i < 8; i++) {
        client_commit(w->p, 0, &w->lease, i, 1, 200);
    }
    harness_settle(&w->h);
    /* Deliveries 2 to 9 are commits 2 to 9. */
    client_release_range(w->mapper, 0, 4, 3);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 1);
    assert_int_equal(w->p->freed_frames, 1);
    assert_true(client_is_freed(w->p, 4) && client_is_freed(w->p, 6));
    assert_false(client_is_freed(w->p, 3) || client_is_freed(w->p, 7));
    client_release_range(w->mapper, 0, 8, 1);
    client_release_range(w->mapper, 0, 7, 1); /* the same turn, downwards: one frame */
    harness_settle(&w->h);
    assert_int_equal(w->p->freed_frames, 2);
    client_release_range(w->mapper, 0, 2, 1);
    client_release_range(w->mapper, 0, 3, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 8);
    assert_int_equal(w->p->freed_frames, 2);
    client_commit(w->p, 0, &w->lease, 2, 1, 200); /* the slot of commit 4 */
    client_drain(w->mapper, 0);
    assert_int_equal(w->p->freed, 10);
    assert_int_equal(w->p->ended, 0);
}

static void test_a_link_that_is_slow_is_told_as_it_has_room(void **state)
{
    struct world *w = *state;
    const struct client_options narrow = {
        .may_map = true, .answers_offers = true, .link_bytes_max = 1};
    struct shard_client *slow = shard_client_create(&w->h, 0, &narrow);
    struct client_lease lease;
    client_open_pub(slow, 0, w->topic, false);
    assert_int_equal(client_lease_open(slow, 4096, 200, &lease), AMB_OK);
    assert_int_equal(client_lease_map(slow, &lease), AMB_OK);
    client_subscribe(w->mapper, 0, w->topic, NULL);
    client_commit(slow, 0, &lease, 0, 1, 200);
    harness_settle(&w->h);
    client_drain(w->mapper, 0);
    uint64_t first = w->mapper->subs[0].last + 1;
    for (uint32_t i = 0; i < 200; i++) {
        client_commit(slow, 0, &lease, i, 1, 200);
        harness_settle(&w->h);
    }
    for (uint64_t i = 1; i < 200; i += 2) { /* No two beside each other: a frame each. */
        client_release_range(w->mapper, 0, first + i, 1);
    }
    amb_link_flush(w->mapper->link);
    (void)harness_turn(&w->h, 0);
    (void)harness_turn(&w->h, 0);
    struct amb_session *session = slow->session;
    /* And the range that was being put together. */
    assert_in_range(session->link->queued, 1, AMB_SESSION_QUEUED_MAX / 2 + 1);
    assert_true(session->book.has_news);
    assert_false(amb_commit_may_tell(session)); /* It waits for the link, which wakes the worker. */
    harness_settle(&w->h);
    assert_int_equal(slow->freed_frames, 100);
    assert_int_equal(slow->ended, 0);
    assert_false(session->book.has_news);
    client_drain(w->mapper, 0);
    assert_int_equal(slow->freed, 201);
    client_lease_fini(&lease);
}

static void test_a_commit_for_a_closed_publisher_counts_and_is_free(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    commit(w, 1, 1, 200);
    client_open_pub(w->p, 2, w->topic, false);
    client_commit(w->p, 2, &w->lease, 2, 1, 200);
    client_close_pub(w->p, 2);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 1);
    assert_true(client_is_freed(w->p, 3));
    commit(w, 2, 1, 200); /* its slot was never taken */
    client_drain(w->mapper, 0);
    assert_int_equal(w->p->freed, 4);
    assert_int_equal(w->p->ended, 0);
    assert_int_equal(w->p->session->frames_ignored, 1);
}

/* It commits on behind one that is read for long, for publishers that are there and that are not,
 * and reads nothing. The words that it does not read cost the broker nothing. */
static void test_what_is_left_unread_keeps_no_entry(void **state)
{
    struct world *w = *state;
    const struct client_options deaf = {
        .may_map = true, .answers_offers = true, .link_bytes_max = 1};
    struct shard_client *p = shard_client_create(&w->h, 0, &deaf);
    struct client_lease lease;
    uint32_t lonely = harness_topic(&w->h, "lonely", 0);
    client_open_pub(p, 0, w->topic, false);
    client_open_pub(p, 1, lonely, false);
    client_open_pub(p, 2, lonely, false);
    assert_int_equal(client_lease_open(p, 4096, 4, &lease), AMB_OK);
    assert_int_equal(client_lease_map(p, &lease), AMB_OK);
    client_subscribe(w->mapper, 0, w->topic, NULL);
    client_commit(p, 0, &lease, 0, 1, 200);
    harness_settle(&w->h);
    client_drain(w->mapper, 0);
    client_commit(p, 0, &lease, 1, 1, 200); /* held from here on */
    harness_settle(&w->h);
    client_close_pub(p, 2);
    struct amb_shard *shard = &w->h.shards[0];
    size_t entries = shard->entries.pool.used;
    for (uint32_t i = 0; i < 5000; i++) {
        client_commit(p, 1 + i % 2, &lease, 2, 1, 200); /* The second one is not there any more. */
        amb_link_flush(p->link);
        (void)harness_turn(&w->h, 0);
    }
    assert_true(shard->entries.pool.used <= entries + 1);
    assert_true(p->session->link->queued <= AMB_SESSION_QUEUED_MAX);
    assert_int_equal(p->ended, 0);
    harness_settle(&w->h);
    assert_int_equal(p->freed, 1);
    assert_true(client_is_freed(p, 3) && client_is_freed(p, 4000) && client_is_freed(p, 5002));
    assert_false(client_is_freed(p, 2));
    client_drain(w->mapper, 0);
    assert_int_equal(p->freed, 5002);
    client_lease_fini(&lease);
}

/* Told, not told, not over: everything between two that are not over is said, and nothing else. */
static void test_every_order_of_ends_is_told_in_full(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    uint32_t seed = 12345;
    uint64_t first = w->mapper->subs[0].last + 1;
    for (unsigned round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 16; i++) {
            client_commit(w->p, 0, &w->lease, i, 1, 200);
        }
        harness_settle(&w->h);
        bool is_back[16] = {false};
        for (unsigned left = 16; left > 0;) {
            seed = seed * 1664525 + 1013904223;
            uint32_t i = seed >> 16 & 15;
            if (!is_back[i]) {
                is_back[i] = true;
                left--;
                client_release_range(w->mapper, 0, first + i, 1);
            }
            if ((seed >> 24 & 3) == 0) {
                harness_settle(&w->h);
                for (uint32_t n = 0; n < 16; n++) {
                    uint64_t number = w->p->commits - 15 + n;
                    assert_int_equal(number <= w->p->freed || client_is_freed(w->p, number),
                                     is_back[n]);
                }
            }
        }
        client_release(w->mapper, 0, first + 15);
        harness_settle(&w->h);
        assert_int_equal(w->p->freed, w->p->commits);
        first += 16;
    }
}

static void test_a_draining_broker_refuses_and_says_so(void **state)
{
    struct world *w = *state;
    w->h.shards[0].is_draining = true;
    commit(w, 0, 1, 200);
    assert_int_equal(w->p->settles[0].status, AMB_ECLOSED);
    assert_int_equal(w->p->freed, 1);
}

static void test_beyond_the_most_entries_it_is_refused(void **state)
{
    struct world *w = *state;
    size_t max = w->h.shards[0].entries.max;
    w->h.shards[0].entries.max = 0;
    amb_publisher_entries_close(amb_session_publisher(w->p->session, 0));
    commit(w, 0, 1, 200);
    assert_int_equal(w->p->settles[0].status, AMB_ENOMEM);
    assert_int_equal(w->p->freed, 1);
    w->h.shards[0].entries.max = max;
    commit(w, 0, 1, 200);
    assert_int_equal(w->p->settles[1].status, AMB_OK);
}

static void test_verify_copies_and_frees_the_slots_at_once(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->verified, NULL);
    client_send(w->p, 1, 1, 100); /* has the mapper map the broker's segment */
    harness_settle(&w->h);
    client_drain(w->mapper, 0);
    client_commit(w->p, 1, &w->lease, 3, 2, 40000);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 1);
    const struct client_delivery *got = client_delivery(w->mapper, 0, 2);
    assert_int_equal(got->frame.type, AMB_FRAME_MAP);
    assert_int_not_equal(got->frame.segment, w->lease.segment);
    memset(w->lease.base, 0xff, (size_t)w->lease.size); /* the reader's stays what it was */
    client_check_held(w->mapper, 0);
    const struct client_commit one = {.offset = 3 * SLOT, .len = 300, .props_len = 50};
    client_commit_as(w->p, 1, &w->lease, &one);
    harness_settle(&w->h);
    assert_int_equal(client_delivery(w->mapper, 0, 3)->frame.meta_len, 16 + 56);
    client_drain(w->mapper, 0);
    assert_int_equal(w->p->freed, 2);
    assert_int_equal(w->p->pubs[1].accepted, 3);
}

static void test_verify_frees_no_slot_while_the_log_holds_its_publisher_back(void **state)
{
    struct world *w = *state;
    const struct amb_subscription_options one = {.credit_msgs = 1};
    client_subscribe(w->copier, 0, w->verified, &one);
    for (uint32_t i = 0; i < 24; i++) {
        client_commit(w->p, 1, &w->lease, i, 1, 65000);
    }
    harness_settle(&w->h);
    assert_true(w->p->freed > 12 && w->p->freed < 24); /* a depth of 1 MiB */
    client_drain(w->copier, 0);
    assert_int_equal(w->p->freed, 24);
}

static void test_verify_without_memory_is_refused(void **state)
{
    struct world *w = *state;
    client_send(w->p, 0, 1, 100); /* room for records is there, for payloads it is not */
    harness_settle(&w->h);
    uint64_t max = w->h.budget.max;
    w->h.budget.max = atomic_load(&w->h.budget.used);
    client_commit(w->p, 1, &w->lease, 0, SLOTS, 65000);
    harness_settle(&w->h);
    w->h.budget.max = max;
    assert_int_equal(w->p->settles[1].status, AMB_ENOMEM);
    assert_int_equal(w->p->freed, 1);
    commit(w, 0, SLOTS, 65000); /* the slots are free */
    assert_int_equal(w->p->freed, 2);
}

static void test_over_three_workers(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    client_subscribe(w->copier, 0, w->topic, NULL);
    harness_settle(&w->h);
    warm_up(w);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            client_commit(w->p, 0, &w->lease, 7 * i, 1 + i, 3000);
        }
        harness_settle(&w->h);
        client_drain(w->mapper, 0);
        client_drain(w->copier, 0);
        assert_int_equal(w->p->freed, w->p->commits);
    }
    assert_int_equal(w->mapper->subs[0].msgs, 1 + 20 * 10);
    assert_int_equal(w->copier->subs[0].msgs, 1 + 20 * 10);
    assert_int_equal(client_delivery(w->mapper, 0, 3)->frame.type, AMB_FRAME_MAP_LEASED);
    assert_int_equal(w->p->ended, 0);
    client_commit(w->p, 1, &w->lease, 0, 3, 3000); /* verify, with its topic elsewhere */
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_the_end_of_a_session_over_three_workers(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    harness_settle(&w->h);
    warm_up(w);
    for (uint32_t i = 0; i < 8; i++) {
        client_commit(w->p, 0, &w->lease, i, 1, 3000);
    }
    harness_settle(&w->h);
    client_release_range(w->mapper, 0, 5, 2);
    (void)shard_client_turn(w->mapper);
    client_close(w->p, true);
    harness_settle(&w->h);
    client_check_held(w->mapper, 0);
    client_die(w->p);
    client_drain(w->mapper, 0);
    assert_int_equal(w->h.shards[0].leases.bytes, 0);
}

/* Bad ones ------------------------------------------------------------------------------------- */

static void test_a_number_that_is_not_due_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit skipped = {.len = 100, .number = 2};
    client_commit_as(w->p, 0, &w->lease, &skipped);
    expect_end(w);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->commits_refused), 1);
}

static void test_a_repeated_number_ends_the_session(void **state)
{
    struct world *w = *state;
    commit(w, 0, 1, 100);
    const struct client_commit again = {.len = 100, .number = 1};
    client_commit_as(w->p, 0, &w->lease, &again);
    expect_end(w);
}

static void test_a_batch_number_that_is_not_due_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit skipped = {.len = 100, .seq = 2};
    client_commit_as(w->p, 0, &w->lease, &skipped);
    expect_end(w);
}

static void test_a_segment_that_is_not_leased_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit other = {.len = 100, .segment = w->lease.segment + 77};
    client_commit_as(w->p, 0, &w->lease, &other);
    expect_end(w);
}

static void test_another_clients_segment_ends_the_session(void **state)
{
    struct world *w = *state;
    client_open_pub(w->mapper, 0, w->topic, false);
    const struct client_commit theirs = {.len = 100};
    client_commit_as(w->mapper, 0, &w->lease, &theirs);
    harness_settle(&w->h);
    assert_int_equal(w->mapper->ended_why, AMB_EPROTO);
    assert_int_equal(w->p->ended, 0);
    commit(w, 0, 1, 100);
    assert_int_equal(w->p->freed, 1);
}

static void test_one_of_the_brokers_segments_ends_the_session(void **state)
{
    struct world *w = *state;
    client_send(w->p, 0, 1, 100);
    harness_settle(&w->h);
    const struct amb_segment *segment =
        AMB_CONTAINER_OF(w->h.shards[0].memory.bufpool.segments.next, struct amb_segment, node);
    const struct client_commit broker = {.len = 100, .segment = segment->id};
    client_commit_as(w->p, 0, &w->lease, &broker);
    expect_end(w);
}

static void test_one_that_is_not_mapped_yet_ends_the_session(void **state)
{
    struct world *w = *state;
    struct client_lease early;
    assert_int_equal(client_lease_open(w->p, SLOT, 1, &early), AMB_OK);
    const struct client_commit commit_early = {.len = 100};
    client_commit_as(w->p, 0, &early, &commit_early);
    expect_end(w);
    client_lease_fini(&early);
}

static void test_one_that_is_closed_ends_the_session(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    commit(w, 0, 1, 100); /* the mapper holds it: the segment is still there */
    client_lease_close(w->p, &w->lease);
    assert_int_not_equal(w->h.shards[0].leases.bytes, 0);
    client_commit(w->p, 0, &w->lease, 1, 1, 100);
    expect_end(w);
    client_drain(w->mapper, 0);
    assert_int_equal(w->h.shards[0].leases.bytes, 0);
}

static void test_a_slot_that_is_taken_ends_the_session(void **state)
{
    struct world *w = *state;
    client_subscribe(w->mapper, 0, w->topic, NULL);
    warm_up(w);
    commit(w, 4, 2, 100);
    assert_int_equal(w->p->ended, 0);
    client_commit(w->p, 0, &w->lease, 3, 2, 100);
    expect_end(w);
    client_drain(w->mapper, 0);
}

static void test_a_slot_twice_in_one_commit_ends_the_session(void **state)
{
    struct world *w = *state;
    struct client_lease twice = w->lease;
    twice.slot = 0; /* all offsets are the first slot's */
    client_commit(w->p, 0, &twice, 0, 2, 100);
    expect_end(w);
}

static void test_an_offset_within_a_slot_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit within = {.offset = SLOT + 16, .len = 100};
    client_commit_as(w->p, 0, &w->lease, &within);
    expect_end(w);
}

static void test_an_offset_behind_the_last_slot_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit beyond = {.offset = SLOT * SLOTS, .len = 0};
    client_commit_as(w->p, 0, &w->lease, &beyond);
    expect_end(w);
}

static void test_an_offset_outside_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit outside = {.offset = UINT64_MAX - 15, .len = 100};
    client_commit_as(w->p, 0, &w->lease, &outside);
    expect_end(w);
}

static void test_a_message_longer_than_its_slot_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit longer = {.offset = 0, .len = SLOT + 1};
    client_commit_as(w->p, 0, &w->lease, &longer);
    expect_end(w);
}

static void test_a_malformed_one_ends_the_session(void **state)
{
    struct world *w = *state;
    const struct client_commit malformed = {.len = 100, .is_malformed = true};
    client_commit_as(w->p, 0, &w->lease, &malformed);
    expect_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_nobody_wants_it_and_its_slots_are_free_at_once),
        T(test_another_users_reader_has_bytes_that_nobody_changes),
        T(test_nobody_reads_what_nobody_can_still_write),
        T(test_a_mapped_reader_gets_the_very_bytes),
        T(test_by_copy_each_message_is_a_delivery),
        T(test_properties_go_with_each_message_of_a_copy),
        T(test_a_batch_by_copy_goes_on_as_credit_comes),
        T(test_what_is_dropped_of_a_begun_batch_is_counted),
        T(test_one_buffer_serves_every_reader),
        T(test_past_the_mapped_cap_it_is_copied),
        T(test_batches_and_commits_keep_their_order),
        T(test_early_ones_are_told_in_ranges),
        T(test_a_link_that_is_slow_is_told_as_it_has_room),
        T(test_a_commit_for_a_closed_publisher_counts_and_is_free),
        T(test_what_is_left_unread_keeps_no_entry),
        T(test_every_order_of_ends_is_told_in_full),
        T(test_a_draining_broker_refuses_and_says_so),
        T(test_beyond_the_most_entries_it_is_refused),
        T(test_verify_copies_and_frees_the_slots_at_once),
        T(test_verify_frees_no_slot_while_the_log_holds_its_publisher_back),
        T(test_verify_without_memory_is_refused),
        cmocka_unit_test_setup_teardown(test_over_three_workers, setup_three, teardown),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_session_over_three_workers, setup_three,
                                        teardown),
        T(test_a_number_that_is_not_due_ends_the_session),
        T(test_a_repeated_number_ends_the_session),
        T(test_a_batch_number_that_is_not_due_ends_the_session),
        T(test_a_segment_that_is_not_leased_ends_the_session),
        T(test_another_clients_segment_ends_the_session),
        T(test_one_of_the_brokers_segments_ends_the_session),
        T(test_one_that_is_not_mapped_yet_ends_the_session),
        T(test_one_that_is_closed_ends_the_session),
        T(test_a_slot_that_is_taken_ends_the_session),
        T(test_a_slot_twice_in_one_commit_ends_the_session),
        T(test_an_offset_within_a_slot_ends_the_session),
        T(test_an_offset_behind_the_last_slot_ends_the_session),
        T(test_an_offset_outside_ends_the_session),
        T(test_a_message_longer_than_its_slot_ends_the_session),
        T(test_a_malformed_one_ends_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
