/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that windows reserve, and its effect on others. No batch within its window is refused,
 * and none waits for memory that others do not use. The publisher's own rules are publisher_test.c.
 */
#include "broker/memory/bufpool_check.h"
#include "tests/unit/broker/ingest/publisher_world.h"

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

/* Sends if it may, else says what it wants, and keeps to that. */
static void try_to_publish(struct shard_client *client, uint32_t handle, uint64_t *plan,
                           uint32_t *seed)
{
    static const uint32_t sizes[] = {16, 300, 4000, 20000, 60000, 300000};
    if (*plan == 0) {
        *plan = 16 + draw(seed, sizes[draw(seed, 6)]);
    }
    if (client_may_send(client, handle, 1, *plan)) {
        client_send(client, handle, 1, *plan);
        *plan = 0;
    } else {
        client_want(client, handle, client->pubs[handle].bytes + client_batch_bytes(1, *plan));
    }
}

#define CROWD 24u
#define CROWD_HANDLES 4u

/* Some to a topic that a slow reader holds, some to one with history, some to one that is read. */
static void test_of_many_publishers_in_a_small_memory_none_is_refused(void **state)
{
    (void)state;
    struct shard_harness h;
    harness_init(&h, 2,
                 "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; "
                 "}; };\n"
                 "topics = ( { match = \"h\"; retain = { messages = 100000; }; } );\n");
    uint32_t topics[3] = {harness_topic(&h, "b", 0), harness_topic(&h, "h", 1),
                          harness_topic(&h, "r", 1)};
    struct shard_client *readers[3], *crowd[CROWD];
    const struct amb_subscription_options stands = {
        .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1};
    for (unsigned i = 0; i < 3; i++) {
        readers[i] = shard_client_create(&h, i % 2, NULL);
        client_subscribe(readers[i], 0, topics[i], i == 0 ? &stands : NULL);
    }
    uint64_t plans[CROWD][CROWD_HANDLES] = {{0}};
    for (unsigned i = 0; i < CROWD; i++) {
        crowd[i] = shard_client_create(&h, i % 2, NULL);
        for (uint32_t k = 0; k < CROWD_HANDLES; k++) {
            client_open_pub(crowd[i], k, topics[(i + k) % 3], false);
        }
    }
    uint32_t seed = 1;
    uint64_t stood = 0;
    for (unsigned step = 0; step < 40000; step++) {
        unsigned i = draw(&seed, CROWD);
        uint32_t k = draw(&seed, CROWD_HANDLES);
        try_to_publish(crowd[i], k, &plans[i][k], &seed);
        amb_link_flush(crowd[i]->link);
        (void)harness_turn(&h, step % 2);
        (void)shard_client_turn(crowd[i]);
        if (step % 16 == 0) {
            for (unsigned r = 1; r < 3; r++) {
                (void)shard_client_turn(readers[r]);
                client_release_all(readers[r], 0);
            }
            harness_pass(&h, AMB_RECLAIM_PAUSE_NS);
        }
        if (step == 20000) {
            stood = harness_home(&h, topics[2])->counts.msgs_in;
        }
    }
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(crowd[i]->settle_count, 0);
        assert_int_equal(crowd[i]->ended, 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(amb_stat_get(&h.shards[i].stats->granted_refused), 0);
        assert_true(h.shards[i].memory.bufpool.reserved <= 16 * 1024 * KIB);
    }
    /* Messages that one reader holds up do not stop the others' topics. */
    assert_true(harness_home(&h, topics[2])->counts.msgs_in > stood + 500);
    harness_check(&h);
    client_drain(readers[0], 0);
    assert_int_equal(readers[0]->subs[0].lost, 0);
    harness_forget(&h);
    harness_fini(&h);
}

static void test_what_was_granted_is_taken_though_others_have_all_the_rest(void **state)
{
    struct world *w = *state;
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    struct amb_buf bufs[512];
    unsigned count = 0;
    client_want(w->p, 0, 100 * KIB); /* The whole window. */
    harness_settle(&w->h);
    while (count < 512 && amb_bufpool_alloc(pool, 60000, &bufs[count]) == AMB_OK) {
        count++;
    }
    assert_in_range(count, 100, 511);
    client_subscribe(w->p, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 1});
    uint32_t seed = 7;
    for (uint64_t left; (left = w->p->pubs[0].window - w->p->pubs[0].bytes) >= 64;) {
        uint64_t len = 16 + draw(&seed, 80000);
        len = client_batch_bytes(1, len) <= left ? len : 16;
        client_send(w->p, 0, 1, len);
        amb_link_flush(w->p->link);
        (void)harness_turn(&w->h, 0);
    }
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0);
    assert_int_equal(w->p->pubs[0].accepted, w->p->pubs[0].batches);
    while (count > 0) {
        amb_bufpool_free(pool, &bufs[--count]);
    }
    client_drain(w->p, 0);
}

static void test_windows_that_stand_open_leave_memory_for_who_waits(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *many[100];
    for (unsigned i = 0; i < 100; i++) {
        many[i] = shard_client_create(&w->h, 0, NULL);
        client_open_pub(many[i], 0, w->topic, false);
        client_want(many[i], 0, 70 * KIB);
        harness_settle(&w->h);
        assert_true(many[i]->pubs[0].window >= 70 * KIB);
        client_send(many[i], 0, 1, 69 * KIB);
        harness_settle(&w->h);
    }
    /* ... and what each has not used of what it waited for. */
    assert_true(shard->memory.bufpool.reserved <= 2 * shard->windows.max + 100 * 2 * KIB);
    uint64_t max = w->h.config->server.max_message;
    client_want(w->p, 0, client_batch_bytes(1, max));
    harness_settle(&w->h);
    assert_true(client_may_send(w->p, 0, 1, max));
    /* With its session a window's memory is free. */
    uint64_t reserved = shard->memory.bufpool.reserved;
    for (unsigned i = 0; i < 100; i++) {
        client_close(many[i], false);
    }
    harness_settle(&w->h);
    assert_true(shard->memory.bufpool.reserved < reserved);
    assert_int_equal(shard->memory.bufpool.reserved, w->p->session->reserved);
}

/* Its window stays as it was: two of its session's prepare nothing more. */
static void wish_in_vain(struct world *w)
{
    uint64_t max = w->h.config->server.max_message;
    client_open_pub(w->p, 1, w->topic, false);
    client_want(w->p, 1, max);
    harness_settle(&w->h);
    client_want(w->p, 0, max);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, AMB_WINDOW_FIRST);
    assert_true(
        amb_list_is_empty(&w->h.shards[0].windows.starving)); /* It is not memory that lacks. */
}

static void test_small_batches_go_on_while_a_large_message_waits(void **state)
{
    struct world *w = *state;
    wish_in_vain(w);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(client_may_send(w->p, 0, 1, 10000));
        client_send(w->p, 0, 1, 10000);
        harness_settle(&w->h);
    }
    assert_int_equal(w->p->settle_count, 0);
    client_close_pub(w->p, 1); /* Then it is served. */
    harness_settle(&w->h);
    assert_true(w->p->pubs[0].window >= w->h.config->server.max_message);
}

static void test_a_smaller_wish_takes_the_place_of_one_that_was_dropped(void **state)
{
    struct world *w = *state;
    wish_in_vain(w);
    client_want(w->p, 0, 100 * KIB);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, 256 * KIB);
    client_close_pub(w->p, 1);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, 256 * KIB);
    assert_null(publisher(w, 0)->prepared.data);
}

/* Counters overtake frames: the wish is seen before what was sent in front of it. */
static void test_a_batch_that_a_wish_overtook_leaves_its_buffer_alone(void **state)
{
    struct world *w = *state;
    uint64_t len = 3000 * KIB, small = client_batch_bytes(1, 16);
    client_want(w->p, 0, 2 * small + client_batch_bytes(1, len));
    harness_settle(&w->h);
    const uint8_t *prepared = publisher(w, 0)->prepared.data;
    uint64_t reserved = w->p->session->reserved;
    assert_non_null(prepared);
    assert_int_equal(reserved, AMB_WINDOW_FIRST);
    client_send(w->p, 0, 1, 16);
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    assert_ptr_equal(publisher(w, 0)->prepared.data, prepared);
    assert_int_equal(w->p->session->reserved, reserved - 2 * small);
    client_subscribe(w->p, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 1});
    client_send(w->p, 0, 1, len);
    harness_settle(&w->h);
    assert_null(publisher(w, 0)->prepared.data);
    assert_int_equal(w->p->settle_count, 0);
    assert_int_equal(w->p->pubs[0].accepted, 3);
    assert_true(w->h.shards[0].memory.bufpool.reserved <= 256 * KIB);
    client_release_all(w->p, 0);
    harness_settle(&w->h);
}

static void test_wishes_that_were_dropped_do_not_take_the_memory_of_others(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *other = shard_client_create(&w->h, 0, NULL);
    uint64_t max = w->h.config->server.max_message;
    for (uint32_t handle = 1; handle < 8; handle++) {
        client_open_pub(w->p, handle, w->topic, false);
        client_want(w->p, handle, max);
        harness_settle(&w->h);
        assert_int_equal(w->p->pubs[handle].window, max);
        for (unsigned i = 0; i < 8; i++) {
            client_send(w->p, handle, 1, 16000);
            harness_settle(&w->h);
        }
        assert_null(publisher(w, handle)->prepared.data);
        assert_true(publisher(w, handle)->reserved <= shard->memory.bufpool.window_max);
    }
    assert_true(shard->memory.bufpool.reserved <= shard->windows.max / 2 + AMB_WINDOW_FIRST);
    client_open_pub(other, 0, w->topic, false);
    client_want(other, 0, 200 * KIB);
    harness_settle(&w->h);
    assert_true(other->pubs[0].window >= 200 * KIB);
    /* A batch that nothing is reserved for has a place while there is memory. */
    while (w->p->pubs[1].bytes < max && client_may_send(w->p, 1, 1, 60000)) {
        client_send(w->p, 1, 1, 60000);
        harness_settle(&w->h);
    }
    assert_int_equal(w->p->settle_count, 0);
}

static void test_windows_of_what_is_closed_are_nobodys(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    for (uint32_t handle = 1; handle < 8; handle++) {
        client_open_pub(w->p, handle, w->topic, false);
        client_want(w->p, handle, 70 * KIB);
        harness_settle(&w->h);
    }
    uint64_t window = w->p->pubs[1].window;
    for (uint32_t handle = 0; handle < 8; handle++) {
        client_close_pub(w->p, handle);
    }
    harness_settle(&w->h);
    assert_int_equal(shard->memory.bufpool.reserved, 0);
    client_open_pub(w->p, 1, w->topic, false);
    assert_int_equal(publisher(w, 1)->window, window);
    assert_int_equal(shard->memory.bufpool.reserved, window);
}

/* A wish for the next message may be heard of before the one that was prepared for comes. */
static void test_of_two_large_messages_each_has_its_buffer(void **state)
{
    struct world *w = *state;
    uint64_t one = client_batch_bytes(1, 400 * KIB);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t sent = w->p->pubs[0].bytes;
        client_want(w->p, 0, sent + one);
        harness_settle(&w->h);
        assert_true(client_may_send(w->p, 0, 1, 400 * KIB));
        client_want(w->p, 0, sent + 2 * one);
        harness_settle(&w->h);
        assert_int_equal(w->p->pubs[0].window, sent + one);
        if (round == 1) { /* It has been given up: one larger is wished for in its place. */
            harness_pass(&w->h, AMB_STARVING_NS + 1);
            harness_settle(&w->h);
            assert_int_equal(w->p->pubs[0].window, sent + 2 * one);
            assert_true(publisher(w, 0)->prepared.cap >= 2 * one);
            return;
        }
        client_send(w->p, 0, 1, 400 * KIB);
        harness_settle(&w->h);
        assert_true(client_may_send(w->p, 0, 1, 400 * KIB));
        assert_true(publisher(w, 0)->prepared.cap >= one);
        client_send(w->p, 0, 1, 400 * KIB);
        harness_settle(&w->h);
        assert_null(publisher(w, 0)->prepared.data);
        assert_int_equal(w->p->settle_count, 0);
    }
}

/* Windows that stand open are nobody else's, so those of many are small. */
static void test_each_of_hundreds_of_publishers_has_a_window(void **state)
{
    struct world *w = *state;
    struct shard_client *clients[40];
    for (unsigned i = 0; i < 40 * 8; i++) {
        if (i % 8 == 0) {
            clients[i / 8] = shard_client_create(&w->h, 0, NULL);
        }
        client_open_pub(clients[i / 8], i % 8, w->topic, false);
        harness_settle(&w->h);
        assert_true(clients[i / 8]->pubs[i % 8].window >= 4 * KIB);
    }
    for (unsigned i = 0; i < 3 * 40 * 8; i++) { /* And what each uses of it comes back. */
        struct shard_client *client = clients[i / 8 % 40];
        assert_true(client_may_send(client, i % 8, 1, 3000));
        client_send(client, i % 8, 1, 3000);
        harness_settle(&w->h);
    }
    assert_true(w->h.shards[0].memory.bufpool.reserved <= 2 * KIB * KIB);
}

static void test_who_waits_gets_no_more_than_it_needs_while_others_starve(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct amb_buf bufs[512];
    unsigned count = 0;
    struct shard_client *large = shard_client_create(&w->h, 0, NULL);
    client_open_pub(large, 0, w->topic, false);
    while (count < 512 &&
           amb_bufpool_alloc(&shard->memory.bufpool, 60000, &bufs[count]) == AMB_OK) {
        count++;
    }
    client_want(large, 0, 3000 * KIB);
    harness_settle(&w->h);
    assert_false(amb_list_is_empty(&shard->windows.starving));
    for (unsigned i = 0; i < 20; i++) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[--count]);
    }
    client_want(w->p, 0, 70 * KIB);
    harness_settle(&w->h);
    assert_true(w->p->pubs[0].window >= 70 * KIB);
    while (count > 0) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[--count]);
    }
    harness_settle(&w->h);
    assert_true(large->pubs[0].window >= 3000 * KIB);
}

static void test_windows_of_idle_publishers_leave_others_more_than_a_batch(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 12; i++) {
        struct shard_client *other = shard_client_create(&w->h, 0, NULL);
        client_open_pub(other, 0, w->topic, false);
        client_want(other, 0, 70 * KIB);
        harness_settle(&w->h);
        assert_int_equal(other->pubs[0].window, 256 * KIB);
    }
    client_want(w->p, 0, 70 * KIB);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, 256 * KIB);
}
/* Two that wish for the largest message and send nothing have half of the memory, for 5 s. Then
 * others have it, and those two are prepared for no more for a while. */
static void test_what_is_prepared_and_not_used_is_taken_back(void **state)
{
    struct world *w = *state;
    uint64_t max = w->h.config->server.max_message;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *greedy[4], *honest = shard_client_create(&w->h, 0, NULL);
    for (unsigned i = 0; i < 4; i++) {
        greedy[i] = shard_client_create(&w->h, 0, NULL);
        client_open_pub(greedy[i], 0, w->topic, false);
        client_want(greedy[i], 0, max);
        harness_settle(&w->h);
    }
    assert_in_range(atomic_load(&w->h.budget.prepared), 1, w->h.budget.max / 2);
    client_open_pub(honest, 0, w->topic, false);
    client_want(honest, 0, 200 * KIB); /* A batch has room meanwhile, */
    harness_settle(&w->h);
    assert_true(honest->pubs[0].window >= 200 * KIB);
    client_want(honest, 0, max); /* and the largest message waits for its turn. */
    harness_settle(&w->h);
    for (unsigned i = 0; i < 4 && honest->pubs[0].window < max; i++) {
        w->h.now_ns += AMB_PREPARED_NS;
        harness_settle(&w->h);
        for (unsigned j = 0; j < 4; j++) { /* They wish on and on. */
            client_want(greedy[j], 0, greedy[j]->pubs[0].window + max);
        }
        harness_settle(&w->h);
    }
    assert_true(honest->pubs[0].window >= max);
    assert_true(amb_stat_get(&shard->stats->prepared_lapsed) >= 2);
    client_send(honest, 0, 1, (uint32_t)(max - 4096));
    harness_settle(&w->h);
    assert_int_equal(honest->pubs[0].accepted, 1);
}

/* A publisher that changes its wish gets no younger place in that line, and no older one. */
static void test_a_wish_that_changes_keeps_nobody_s_buffer(void **state)
{
    struct world *w = *state;
    uint64_t max = w->h.config->server.max_message;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *first = shard_client_create(&w->h, 0, NULL),
                        *second = shard_client_create(&w->h, 0, NULL);
    client_open_pub(first, 0, w->topic, false);
    client_open_pub(second, 0, w->topic, false);
    client_want(first, 0, max);
    harness_settle(&w->h);
    uint64_t one = atomic_load(&w->h.budget.prepared);
    w->h.now_ns += AMB_PREPARED_NS - AMB_NS_PER_SEC;
    client_want(second, 0, max);
    harness_settle(&w->h);
    assert_true(one > 0 && atomic_load(&w->h.budget.prepared) > one);
    w->h.now_ns += AMB_NS_PER_SEC / 2;
    client_want(second, 0, second->pubs[0].window + max / 2);
    harness_settle(&w->h);
    assert_int_equal(amb_stat_get(&shard->stats->prepared_lapsed), 0);
    w->h.now_ns += AMB_NS_PER_SEC / 2;
    harness_settle(&w->h);
    assert_int_equal(amb_stat_get(&shard->stats->prepared_lapsed), 1);
}

/* A late message whose buffer was taken back has a place while there is memory. */
static void test_what_comes_after_that_is_kept_while_there_is_room(void **state)
{
    struct world *w = *state;
    uint64_t max = w->h.config->server.max_message;
    client_want(w->p, 0, max);
    harness_settle(&w->h);
    assert_non_null(publisher(w, 0)->prepared.data);
    w->h.now_ns += AMB_PREPARED_NS;
    harness_settle(&w->h);
    assert_null(publisher(w, 0)->prepared.data);
    assert_int_equal(atomic_load(&w->h.budget.prepared), 0);
    client_send(w->p, 0, 1, (uint32_t)(max - 4096));
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].accepted, 1);
    assert_int_equal(w->p->ended, 0);
}

#define PIECE 81920u
#define HOGS 512u

static unsigned hog_by(struct world *w, struct amb_buf *bufs, unsigned count, uint64_t len)
{
    while (count < HOGS &&
           amb_bufpool_alloc(&w->h.shards[0].memory.bufpool, len, &bufs[count]) == AMB_OK) {
        count++;
    }
    return count;
}

static unsigned hog(struct world *w, struct amb_buf *bufs, unsigned count)
{
    return hog_by(w, bufs, count, PIECE);
}

static void give_back(struct world *w, struct amb_buf *bufs, unsigned count)
{
    while (count > 0) {
        amb_bufpool_free(&w->h.shards[0].memory.bufpool, &bufs[--count]);
    }
    harness_settle(&w->h);
}

/* One wish is for so many batches, while memory is full. Was a buffer prepared? */
static bool wish_for_pieces(struct world *w, unsigned pieces, uint32_t len)
{
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    static struct amb_buf bufs[HOGS];
    /* Less than a piece is open of its window. */
    while (client_may_send(w->p, 0, 1, 10000)) {
        client_send(w->p, 0, 1, 10000);
    }
    uint64_t want = w->p->pubs[0].bytes + pieces * client_batch_bytes(1, len);
    unsigned count = hog(w, bufs, 0);
    client_want(w->p, 0, want);
    harness_settle(&w->h);
    while (w->p->pubs[0].window < want) {
        assert_true(count > 0);
        amb_bufpool_free(pool, &bufs[--count]);
        harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
        harness_settle(&w->h);
    }
    bool was_prepared = publisher(w, 0)->prepared.data != NULL;
    for (unsigned i = 0; i < pieces; i++) {
        count = hog(w, bufs, count);
        client_send(w->p, 0, 1, len);
        harness_settle(&w->h);
        amb_bufpool_check(pool);
        assert_int_equal(w->p->settle_count, 0);
    }
    give_back(w, bufs, count);
    return was_prepared;
}

/* The buffer that was prepared for all of them is for each of them. Others may take all that they
 * can get in between, and its size class may waste what it likes. */
static void test_what_was_prepared_at_once_may_come_in_pieces(void **state)
{
    const uint32_t lens[] = {13000, 20000, 40000, 66000,
                             PIECE - (uint32_t)(client_batch_bytes(1, 16) - 16)};
    unsigned prepared = 0;
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (unsigned pieces = 2; pieces <= 4; pieces++) {
            prepared += wish_for_pieces(*state, pieces, lens[i]);
        }
    }
    assert_true(prepared > 0);
}

/* The wish for a second large message is heard before the first one comes. The buffer for both is
 * in place of the first one's, and nothing else has room. */
static void test_a_buffer_for_two_large_messages_holds_both(void **state)
{
    struct world *w = *state;
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    const uint32_t lens[] = {262 * 1024, 370 * 1024}; /* 66 and 93 pages, of classes of 80 and 96 */
    static struct amb_buf bufs[HOGS];
    uint64_t sent = w->p->pubs[0].bytes, first = sent + client_batch_bytes(1, lens[0]);
    client_want(w->p, 0, first);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, first);
    assert_non_null(publisher(w, 0)->prepared.data);
    harness_pass(&w->h, AMB_STARVING_NS + 1);
    client_want(w->p, 0, first + client_batch_bytes(1, lens[1]));
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, first + client_batch_bytes(1, lens[1]));
    unsigned count = 0;
    for (unsigned i = 0; i < 2; i++) {
        count = hog_by(w, bufs, hog(w, bufs, count), PIECE / 5);
        assert_in_range(count, 1, HOGS - 1);
        client_send(w->p, 0, 1, lens[i]);
        harness_settle(&w->h);
        amb_bufpool_check(pool);
        assert_int_equal(w->p->settle_count, 0);
    }
    assert_int_equal(w->p->pubs[0].accepted, 2);
    assert_null(publisher(w, 0)->prepared.data);
    assert_int_equal(atomic_load(&w->h.budget.prepared), 0);
    give_back(w, bufs, count);
}

/* The buffer is there, but the entry would be one too many. */
static void test_too_many_entries_are_refused_whatever_is_prepared(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    client_want(w->p, 0, 400 * KIB);
    harness_settle(&w->h);
    assert_non_null(publisher(w, 0)->prepared.data);
    size_t max = shard->entries.max;
    shard->entries.max = 0;
    amb_publisher_entries_close(publisher(w, 0));
    for (unsigned i = 0; i < 2; i++) {
        client_send(w->p, 0, 1, i == 0 ? 16 : 300 * KIB);
        harness_settle(&w->h);
        assert_int_equal(w->p->settle_count, i + 1);
        assert_int_equal(w->p->settles[i].status, AMB_ENOMEM);
    }
    shard->entries.max = max;
}

/* A whole segment is not for a few bytes, whatever else there is. */
static void test_a_tiny_batch_never_gets_a_whole_segment(void **state)
{
    struct world *w = *state;
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    static struct amb_buf bufs[HOGS * 16];
    unsigned count = 0;
    client_want(w->p, 0, 3000 * KIB);
    harness_settle(&w->h);
    uint64_t cap = publisher(w, 0)->prepared.cap;
    assert_true(cap >= 3000 * KIB);
    for (uint64_t len = PIECE; len >= 64; len /= 2) {
        while (count < HOGS * 16 && amb_bufpool_alloc_granted(pool, len, &bufs[count]) == AMB_OK) {
            count++;
        }
    }
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 1);
    assert_int_equal(w->p->settles[0].status, AMB_ENOMEM);
    assert_int_equal(publisher(w, 0)->prepared.cap, cap);
    give_back(w, bufs, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_of_many_publishers_in_a_small_memory_none_is_refused),
        T(test_what_was_granted_is_taken_though_others_have_all_the_rest),
        T(test_windows_that_stand_open_leave_memory_for_who_waits),
        T(test_small_batches_go_on_while_a_large_message_waits),
        T(test_a_smaller_wish_takes_the_place_of_one_that_was_dropped),
        T(test_a_batch_that_a_wish_overtook_leaves_its_buffer_alone),
        T(test_wishes_that_were_dropped_do_not_take_the_memory_of_others),
        T(test_windows_of_what_is_closed_are_nobodys),
        T(test_what_is_prepared_and_not_used_is_taken_back),
        T(test_a_wish_that_changes_keeps_nobody_s_buffer),
        T(test_what_comes_after_that_is_kept_while_there_is_room),
        T(test_of_two_large_messages_each_has_its_buffer),
        T(test_what_was_prepared_at_once_may_come_in_pieces),
        T(test_a_buffer_for_two_large_messages_holds_both),
        T(test_too_many_entries_are_refused_whatever_is_prepared),
        T(test_a_tiny_batch_never_gets_a_whole_segment),
        T(test_each_of_hundreds_of_publishers_has_a_window),
        T(test_who_waits_gets_no_more_than_it_needs_while_others_starve),
        T(test_windows_of_idle_publishers_leave_others_more_than_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
