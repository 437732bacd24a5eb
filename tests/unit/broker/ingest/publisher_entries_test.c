/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries that windows reserve. A publisher of tiny batches takes no entry from batches that
 * were granted to others. The memory of windows is publisher_window_test.c.
 */
#include "broker/ingest/publisher_reserve.h"
#include "broker/shard/entry.h"
#include "tests/unit/broker/ingest/publisher_world.h"

#define MOST 1024u /* entries in these tests */
#define GREEDY 24u /* clients, */
#define SILENT 60u /* ... others, */
#define NEXT 4u    /* ... and those that come behind them */
#define HANDLES 8u /* of one client */
#define LEN UINT64_C(1000)

static const struct amb_subscription_options stands = {
    .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1};

/* All of them send batches of 16 bytes, as far as their windows let them. Returns how many of those
 * were refused. */
static unsigned send_tiny(struct world *w, struct shard_client **greedy)
{
    unsigned refused = 0;
    for (unsigned i = 0; i < GREEDY; i++) {
        for (unsigned sent = 0; sent < MOST && client_may_send(greedy[i], 0, 1, 16); sent++) {
            client_send(greedy[i], 0, 1, 16);
        }
        harness_settle(&w->h);
        refused += greedy[i]->settle_count;
    }
    return refused;
}

static void open_greedy(struct world *w, struct shard_client **greedy, uint32_t topic)
{
    for (unsigned i = 0; i < GREEDY; i++) {
        greedy[i] = shard_client_create(&w->h, 0, NULL);
        client_open_pub(greedy[i], 0, topic, false);
    }
}

/* Batches of the first publisher, to a topic that nobody reads. Returns how many were refused. */
static unsigned send_own(struct world *w, unsigned count, uint64_t len)
{
    unsigned before = w->p->settle_count;
    for (unsigned i = 0; i < count; i++) {
        assert_true(client_may_send(w->p, 0, 1, len));
        client_send(w->p, 0, 1, len);
        harness_settle(&w->h);
    }
    return w->p->settle_count - before;
}

/* A topic with a reader that stands, in a world of few entries. */
static uint32_t open_standing(struct world *w, struct shard_client **slow)
{
    w->h.shards[0].entries.max = MOST;
    uint32_t topic = harness_topic(&w->h, "tiny", 0);
    *slow = shard_client_create(&w->h, 0, NULL);
    client_subscribe(*slow, 0, topic, &stands);
    return topic;
}

static void test_tiny_batches_of_others_take_no_entry_that_was_reserved(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *greedy[GREEDY], *slow;
    uint32_t topic = open_standing(w, &slow);
    assert_int_equal(send_own(w, 64, LEN), 0);
    open_greedy(w, greedy, topic);
    assert_true(send_tiny(w, greedy) > 0);
    assert_in_range(shard->entries.pool.used + shard->entries.reserved, MOST - 8, MOST + 1);
    uint32_t reserved = publisher(w, 0)->entries.reserved;
    assert_in_range(reserved, MOST / 8 / (GREEDY + 1), MOST / 64);
    assert_int_equal(send_own(w, reserved, LEN), 0);
    assert_int_equal(amb_stat_get(&shard->stats->unreserved_refused), 0);
    client_drain(slow, 0);
    assert_int_equal(send_own(w, 64, 16), 0); /* There is room for more than what was reserved. */
}

/* So publishers wait, and are not refused. */
static void test_windows_stay_shut_where_entries_are_few(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *greedy[GREEDY], *slow;
    uint32_t topic = open_standing(w, &slow);
    open_greedy(w, greedy, topic);
    (void)send_tiny(w, greedy);
    assert_int_equal(amb_entry_share_room(shard, NULL), 0);
    client_open_pub(w->p, 1, topic, false);
    assert_int_equal(publisher(w, 1)->window, 0);
    client_want(w->p, 1, client_batch_bytes(1, 16));
    harness_settle(&w->h);
    assert_int_equal(publisher(w, 1)->window, 0);
    client_drain(slow, 0);
    harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
    harness_settle(&w->h);
    assert_true(client_may_send(w->p, 1, 1, 16));
}

/* An entry is its publisher's worker's, and only the topic's worker can let it go. */
static void test_readers_of_another_worker_let_entries_go(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    harness_init(&w->h, 2, small_window);
    struct amb_shard *shard = &w->h.shards[0];
    shard->entries.max = MOST;
    uint32_t topic = harness_topic(&w->h, "tiny", 1), own = harness_topic(&w->h, "own", 0);
    struct shard_client *greedy[GREEDY], *slow = shard_client_create(&w->h, 1, NULL);
    client_subscribe(
        slow, 0, topic,
        &(struct amb_subscription_options){.slow = AMB_SLOW_DROP_OLDEST, .credit_msgs = 1});
    open_greedy(w, greedy, topic);
    (void)send_tiny(w, greedy);
    assert_int_equal(amb_entry_share_room(shard, NULL), 0);
    w->p = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->p, 0, own, false);
    client_want(w->p, 0, client_batch_bytes(1, LEN));
    for (unsigned i = 0; i < 10 && !client_may_send(w->p, 0, 1, LEN); i++) {
        harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
        harness_settle(&w->h);
    }
    assert_int_equal(send_own(w, 1, LEN), 0);
}

/* Windows that stand open and are not used keep an eighth, and of one session a part of that. */
static void test_what_is_reserved_is_bounded_and_comes_back(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    shard->entries.max = MOST;
    assert_int_equal(send_own(w, 64, 16), 0);
    for (uint32_t i = 1; i < HANDLES; i++) {
        client_open_pub(w->p, i, w->topic, false);
    }
    assert_in_range(w->p->session->entries_reserved, 16, MOST / 64 + 33);
    struct shard_client *greedy[GREEDY];
    open_greedy(w, greedy, w->topic);
    assert_in_range(shard->entries.reserved, MOST / 16, MOST / 8 + 33);
    struct shard_client *next = shard_client_create(&w->h, 0, NULL);
    client_open_pub(next, 0, w->topic, false); /* They leave some. */
    assert_in_range(next->session->entries_reserved, 1, MOST / 64);
    client_close_pub(next, 0);
    for (unsigned i = 0; i < GREEDY; i++) {
        client_close_pub(greedy[i], 0);
    }
    for (uint32_t i = 0; i < HANDLES; i++) {
        client_close_pub(w->p, i);
    }
    harness_settle(&w->h);
    assert_int_equal(w->p->session->entries_reserved, 0);
    assert_int_equal(shard->entries.reserved, 0);
}

/* A publisher of large batches keeps few, and of small ones as many as it may. */
static void test_as_many_are_reserved_as_batches_of_that_size_take(void **state)
{
    struct world *w = *state;
    assert_int_equal(send_own(w, 40, 30 * KIB), 0);
    assert_in_range(publisher(w, 0)->entries.reserved, 1, 64);
    assert_in_range(publisher(w, 0)->entries.size, 15 * KIB, 31 * KIB);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(send_own(w, 200, 64), 0);
    }
    assert_in_range(publisher(w, 0)->entries.size, 16, 128);
    assert_in_range(publisher(w, 0)->entries.reserved, w->h.shards[0].entries.max / 128,
                    w->h.shards[0].entries.max / 64);
}

/* However many others are silent, each session has a part. Their windows are told; this is not. */
static void test_silent_sessions_leave_each_one_its_part(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *silent[SILENT], *next[NEXT];
    shard->entries.max = MOST;
    client_close_pub(w->p, 0);
    for (unsigned i = 0; i < SILENT; i++) {
        silent[i] = shard_client_create(&w->h, 0, NULL);
        client_open_pub(silent[i], 0, w->topic, false);
    }
    assert_in_range(shard->entries.reserved, MOST / 8 - 8, MOST / 8);
    for (unsigned i = 0; i < NEXT; i++) {
        next[i] = shard_client_create(&w->h, 0, NULL);
        client_open_pub(next[i], 0, w->topic, false);
        assert_in_range(next[i]->session->entries_reserved, MOST / 8 / (SILENT + NEXT), MOST / 64);
    }
    assert_in_range(shard->entries.reserved, MOST / 8 - 8, MOST / 8);
    for (unsigned i = 0; i < SILENT; i++) {
        assert_true(silent[i]->session->entries_reserved > 0); /* Some, too. */
        client_close_pub(silent[i], 0);
    }
    for (unsigned i = 0; i < NEXT; i++) {
        client_close_pub(next[i], 0);
    }
    assert_int_equal(shard->entries.reserved, 0);
    client_open_pub(w->p, 0, w->topic, false);
}

/* Commits take entries, and nothing of the window: they say nothing of the batches in it. */
static void test_commits_do_not_make_batches_look_small(void **state)
{
    struct world *w = *state;
    struct amb_publisher *p = publisher(w, 0);
    uint32_t reserved = p->entries.reserved;
    for (unsigned i = 0; i < 2 * reserved; i++) {
        const struct amb_frame frame = {.type = AMB_FRAME_COMMIT, .seq = p->batches + 1};
        assert_int_equal(amb_publisher_admit_commit(p, &frame), AMB_OK);
        assert_in_range(p->entries.reserved, 0, reserved);
    }
}

/* Its window was wider than the memory that was reserved for it. */
static void test_an_entry_is_kept_for_a_batch_without_reserved_memory(void **state)
{
    struct world *w = *state;
    struct amb_publisher *p = publisher(w, 0);
    assert_true(p->entries.reserved > 0);
    amb_publisher_unreserve(p, p->reserved);
    w->h.shards[0].entries.max = 0;
    assert_int_equal(send_own(w, 1, LEN), 0);
    assert_true(p->is_short);
}

/* Others cannot have the entries that stay behind a reader that stands. */
static void test_windows_of_tiny_batches_are_small(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(send_own(w, 100, 16), 0);
    }
    w->h.shards[0].entries.max = 1 << 20;
    uint64_t most = w->h.shards[0].entries.max / 64 * publisher(w, 0)->entries.size;
    assert_int_equal(amb_publisher_entries_window(publisher(w, 0), 2 * most), most);
    assert_int_equal(amb_publisher_entries_window(publisher(w, 0), most - 1), most - 1);
    w->h.shards[0].entries.max = 64;
    assert_int_equal(amb_publisher_entries_window(publisher(w, 0), 1024 * KIB), 256 * KIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_tiny_batches_of_others_take_no_entry_that_was_reserved),
        T(test_windows_stay_shut_where_entries_are_few),
        T(test_readers_of_another_worker_let_entries_go),
        T(test_what_is_reserved_is_bounded_and_comes_back),
        T(test_as_many_are_reserved_as_batches_of_that_size_take),
        T(test_silent_sessions_leave_each_one_its_part),
        T(test_windows_of_tiny_batches_are_small),
        T(test_commits_do_not_make_batches_look_small),
        T(test_an_entry_is_kept_for_a_batch_without_reserved_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
