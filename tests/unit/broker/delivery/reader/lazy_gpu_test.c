/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy readers of batches in GPU memory, on the fake driver. Their payloads come from the host
 * copy, which is made when the first of them asks. Until then they are told to ask again. Payloads
 * that are kept for them hold slots, within limits; those that go away meanwhile leave nothing
 * behind.
 */
#include "broker/config/config.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/segment_lease.h"
#include "broker/topic/topic.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/shard/shard_gpu.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOT UINT64_C(65536)
#define SLOTS 32u
#define BYTES 50000u
#define LATE 40000u /* where a payload says its number again */

struct world {
    struct shard_harness h;
    struct amb_gpus gpus;
    uint32_t topic;
    struct shard_client *p, *a, *b, *c; /* of the first, the last, the last and the middle shard */
    struct client_lease lease;
    uint64_t address; /* of the lease */
};

static const char config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; };\n"
    "           cuda = { size = \"8M\"; devices = ( \"0\" ); }; };\n"
    "topics = ( { match = \"t\"; spill_max = \"1G\"; } );\n";
static const struct client_options maps = {.may_map = true, .answers_offers = true};

static void make(void **state, unsigned shards)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, shards, config);
    harness_gpus_start(&w->h, &w->gpus);
    w->topic = harness_topic(&w->h, "t", shards / 2);
    w->p = shard_client_create(&w->h, 0, &maps);
    w->a = shard_client_create(&w->h, shards - 1, &maps);
    w->b = shard_client_create(&w->h, shards - 1, NULL);
    w->c = shard_client_create(&w->h, shards / 2, NULL);
    client_open_pub(w->p, 0, w->topic, true);
    w->address = client_lease_gpu(w->p, &w->gpus, SLOT, SLOTS, &w->lease);
    *state = w;
}

static int setup(void **state)
{
    make(state, 1);
    return 0;
}

static int setup_three(void **state)
{
    make(state, 3);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    fakecuda_fail(NULL);
    fakecuda_hold(false);
    harness_fini(&w->h);
    harness_gpus_stop(&w->gpus);
    free(w);
    return 0;
}

static void subscribe(struct shard_client *client, uint32_t topic, enum amb_lazy lazy)
{
    client_subscribe(client, 0, topic, &(struct amb_subscription_options){.lazy = lazy});
    harness_settle(client->harness);
}

/* The bytes that a kernel would have written there: a stamp, and its number once more. */
static void poke(struct world *w, uint32_t slot)
{
    const struct client_stamp stamp = {(uint32_t)w->p->id, 0, ++w->p->pubs[0].messages};
    assert_true(fakecuda_poke(w->address + slot * SLOT, &stamp, sizeof(stamp)));
    assert_true(fakecuda_poke(w->address + slot * SLOT + LATE, &stamp.number, sizeof(uint64_t)));
}

static void commit(struct world *w, uint32_t slot, uint32_t props_len)
{
    poke(w, slot);
    client_commit_as(
        w->p, 0, &w->lease,
        &(struct client_commit){.offset = slot * SLOT, .len = BYTES, .props_len = props_len});
    harness_settle(&w->h);
}

/* Three messages in one, not in the order of their slots. */
static void commit_three(struct world *w, uint32_t slot)
{
    const uint64_t offsets[3] = {(slot + 2) * SLOT, slot * SLOT, (slot + 1) * SLOT};
    const struct amb_record record = {.len = BYTES};
    uint8_t body[3 * (sizeof(record) + sizeof(uint64_t))];
    const struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .seq = ++w->p->pubs[0].batches,
        .number = ++w->p->commits,
        .count = 3,
        .segment = w->lease.segment,
        .data_len = 3 * amb_payload_padded(BYTES),
        .meta_len = sizeof(body),
    };
    for (unsigned i = 0; i < 3; i++) {
        poke(w, (uint32_t)(offsets[i] / SLOT));
        memcpy(body + i * sizeof(record), &record, sizeof(record));
    }
    memcpy(body + 3 * sizeof(record), offsets, sizeof(offsets));
    client_send_body(w->p, &frame, body);
    harness_settle(&w->h);
}

static void ask(struct shard_client *client, uint64_t number, uint32_t first, uint64_t offset,
                uint64_t len)
{
    unsigned answers = client->answers;
    client_fetch(client, 0, number, first, offset, len);
    harness_settle(client->harness);
    assert_int_equal(client->answers, answers + 1);
}

/* Asked again until it is there, or will not be. */
static enum amb_status ask_until_here(struct shard_client *client, uint64_t number, uint32_t first,
                                      uint64_t offset, uint64_t len)
{
    do {
        (void)sched_yield();
        ask(client, number, first, offset, len);
    } while (client->answer.status == AMB_EAGAIN);
    return (enum amb_status)client->answer.status;
}

/* Is it the publisher's n-th message? */
static void expect_message(struct shard_client *client, uint64_t number, uint32_t first, uint64_t n)
{
    struct client_stamp stamp;
    assert_int_equal(ask_until_here(client, number, first, 0, sizeof(stamp)), AMB_OK);
    memcpy(&stamp, client->answered, sizeof(stamp));
    assert_int_equal(stamp.number, n);
    assert_int_equal(ask_until_here(client, number, first, LATE, sizeof(n)), AMB_OK);
    assert_memory_equal(client->answered, &n, sizeof(n));
}

static uint64_t twins(const struct world *w)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < w->h.count; i++) {
        count += amb_stat_get(&w->h.shards[i].stats->twins);
    }
    return count;
}

static void await_twins(struct world *w, uint64_t count)
{
    while (twins(w) < count) {
        harness_settle(&w->h);
        (void)sched_yield();
    }
    harness_settle(&w->h);
}

static void expect_all_freed(struct world *w)
{
    harness_settle(&w->h);
    assert_true(client_is_freed(w->p, w->p->commits));
    for (unsigned i = 0; i < w->h.count; i++) {
        assert_int_equal(w->h.shards[i].lazy.kept, 0);
    }
    assert_int_equal(w->p->ended + w->a->ended + w->b->ended + w->c->ended, 0);
}

static void test_headers_come_without_a_copy_and_bytes_by_one(void **state)
{
    struct world *w = *state;
    const enum amb_lazy kinds[] = {AMB_LAZY_ON, AMB_LAZY_PIN};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = twins(w), sent = w->p->pubs[0].messages;
        uint64_t last = w->a->subs[0].last;
        subscribe(w->a, w->topic, kinds[i]);
        subscribe(w->b, w->topic, kinds[i]);
        commit(w, 0, 0);
        commit(w, 1, 40);
        commit_three(w, 2);
        last += 3;
        assert_int_equal(w->a->subs[0].last, last);
        assert_int_equal(client_delivery(w->b, 0, last)->frame.type, AMB_FRAME_LAZY);
        assert_int_equal(twins(w), before);
        struct shard_client *const readers[] = {w->a, w->b};
        for (unsigned r = 0; r < 2; r++) {
            expect_message(readers[r], last - 2, 0, sent + 1);
            expect_message(readers[r], last - 1, 0, sent + 2);
            for (uint32_t m = 0; m < 3; m++) {
                expect_message(readers[r], last, m, sent + 3 + m);
            }
        }
        assert_int_equal(twins(w), before + 3); /* For all of them. */
        client_drain(w->a, 0);
        client_drain(w->b, 0);
        client_unsubscribe(w->a, 0);
        client_unsubscribe(w->b, 0);
        expect_all_freed(w);
    }
}

static void test_who_asks_while_the_copy_comes_is_told_to_ask_again(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    subscribe(w->b, w->topic, AMB_LAZY_ON);
    fakecuda_hold(true);
    commit(w, 0, 0);
    for (unsigned i = 0; i < 5; i++) {
        ask(w->a, 1, 0, 0, 16);
        assert_int_equal(w->a->answer.status, AMB_EAGAIN);
        ask(w->b, 1, 0, LATE, 8);
        assert_int_equal(w->b->answer.status, AMB_EAGAIN);
    }
    assert_int_equal(twins(w), 0);
    fakecuda_hold(false);
    expect_message(w->a, 1, 0, 1);
    expect_message(w->b, 1, 0, 1);
    assert_int_equal(twins(w), 1);
    client_drain(w->a, 0);
    client_drain(w->b, 0);
    expect_all_freed(w);
}

/* Nobody fetches by a map of GPU memory, also who has one. */
static void test_all_of_it_in_place_is_not_to_be_had(void **state)
{
    struct world *w = *state;
    w->a->session->may_map_gpu = true;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    commit(w, 0, 0);
    ask(w->a, 1, 0, 0, 0);
    assert_int_equal(w->a->answer.status, AMB_ENOTSUP);
    expect_message(w->a, 1, 0, 1);
    ask(w->a, 1, 0, 0, 0); /* The twin is not looked for there. */
    assert_int_equal(w->a->answer.status, AMB_ENOTSUP);
    client_drain(w->a, 0);
    expect_all_freed(w);
}

static void test_one_copy_is_for_readers_of_all_kinds(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    subscribe(w->c, w->topic, AMB_LAZY_OFF);
    commit(w, 0, 0);
    await_twins(w, 1);
    while (w->c->subs[0].last < 1) {
        harness_settle(&w->h);
    }
    expect_message(w->a, 1, 0, 1);
    assert_int_equal(w->gpus.pools[0].staged_bytes, BYTES);
    client_drain(w->a, 0);
    client_drain(w->c, 0);
    expect_all_freed(w);
}

static void test_what_is_not_pinned_keeps_a_quarter_of_the_slots(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_ON);
    for (uint32_t n = 0; n < 3 * SLOTS; n++) {
        while (w->p->commits >= SLOTS - 8 && !client_is_freed(w->p, w->p->commits - (SLOTS - 9))) {
            fail(); /* Nobody is asked to give anything back. */
        }
        commit(w, n % SLOTS, 0);
    }
    assert_int_equal(w->a->subs[0].last, 3 * SLOTS);
    ask(w->a, 1, 0, 0, 16);
    assert_int_equal(w->a->answer.status, AMB_ESTALE);
    expect_message(w->a, 3 * SLOTS, 0, 3 * SLOTS);
    client_drain(w->a, 0);
    expect_all_freed(w);
}

static void test_pins_hold_their_slots(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    for (uint32_t n = 0; n < SLOTS; n++) {
        commit(w, n, 0);
    }
    assert_int_equal(w->p->freed, 0);
    for (uint32_t n = SLOTS; n > 0; n--) {
        expect_message(w->a, n, 0, n);
    }
    client_release_range(w->a, 0, 20, 1);
    harness_settle(&w->h);
    assert_true(client_is_freed(w->p, 20));
    ask(w->a, 20, 0, 0, 16);
    assert_int_equal(w->a->answer.status, AMB_ESTALE);
    client_drain(w->a, 0);
    expect_all_freed(w);
}

/* Its own memory is short, and it is not what was asked for that is given up. */
static void test_what_goes_stale_while_it_is_copied_leaves_nothing(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_ON);
    fakecuda_hold(true);
    commit(w, 0, 0);
    ask(w->a, 1, 0, 0, 16);
    assert_int_equal(w->a->answer.status, AMB_EAGAIN);
    assert_true(amb_subscriptions_drop_kept(w->a->session->shard));
    ask(w->a, 1, 0, 0, 16);
    assert_int_equal(w->a->answer.status, AMB_ESTALE);
    fakecuda_hold(false);
    await_twins(w, 1);
    assert_int_equal(w->p->freed, w->p->commits);
    client_drain(w->a, 0);
    expect_all_freed(w);
}

static void test_what_is_given_back_while_it_is_copied_leaves_nothing(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    subscribe(w->b, w->topic, AMB_LAZY_PIN);
    fakecuda_hold(true);
    commit(w, 0, 0);
    commit(w, 1, 0);
    for (uint64_t n = 1; n <= 2; n++) {
        ask(w->a, n, 0, 0, 16);
        ask(w->b, n, 0, 0, 16);
    }
    client_release(w->a, 0, 1);
    harness_settle(&w->h);
    ask(w->a, 1, 0, 0, 16);
    assert_int_equal(w->a->answer.status, AMB_ESTALE);
    client_unsubscribe(w->a, 0);
    client_close(w->b, true);
    client_die(w->b);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 0); /* They are being read. */
    fakecuda_hold(false);
    await_twins(w, 2);
    client_drain(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_a_copy_that_fails_is_that_messages_failure(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    subscribe(w->b, w->topic, AMB_LAZY_ON);
    fakecuda_fail("cuMemcpyAsync:1=1");
    commit(w, 0, 0);
    commit(w, 1, 0);
    assert_int_equal(ask_until_here(w->a, 1, 0, 0, 16), AMB_ECUDA);
    assert_int_equal(ask_until_here(w->b, 1, 0, 0, 16), AMB_ECUDA);
    ask(w->a, 1, 0, 0, 16);
    assert_int_equal(w->a->answer.status, AMB_ECUDA);
    expect_message(w->a, 2, 0, 2);
    expect_message(w->b, 2, 0, 2);
    client_drain(w->a, 0);
    client_drain(w->b, 0);
    expect_all_freed(w);
}

/* It is not held to what it was: its own reference is older than the move. */
static void test_what_is_moved_to_host_memory_can_still_be_asked_for(void **state)
{
    struct world *w = *state;
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    client_subscribe(w->c, 0, w->topic,
                     &(struct amb_subscription_options){.slow = AMB_SLOW_SPILL, .credit_msgs = 1});
    harness_settle(&w->h);
    for (uint32_t n = 0; n < 8; n++) {
        commit(w, n, 0);
    }
    while (twins(w) < 8) {
        harness_pass(&w->h, INT64_C(10000000));
        harness_settle(&w->h);
        (void)sched_yield();
    }
    for (uint64_t n = 1; n <= 8; n++) {
        expect_message(w->a, n, 0, n);
    }
    assert_int_equal(twins(w), 8);
    client_drain(w->a, 0);
    while (w->c->subs[0].msgs < 8) {
        client_release_all(w->c, 0);
        harness_settle(&w->h);
    }
    client_drain(w->c, 0);
    expect_all_freed(w);
}

/* In a process of its own: a device that is lost stays so. */
static void lose_the_device(struct world *w)
{
    subscribe(w->a, w->topic, AMB_LAZY_PIN);
    for (uint32_t n = 0; n < 3; n++) {
        commit(w, n, 0);
    }
    expect_message(w->a, 1, 0, 1);
    fakecuda_fail("cuMemcpyAsync:1=719");
    assert_int_equal(ask_until_here(w->a, 2, 0, 0, 16), AMB_ECUDA);
    assert_int_equal(ask_until_here(w->a, 3, 0, 0, 16), AMB_ECUDA);
    expect_message(w->a, 1, 0, 1); /* There is a copy of it. */
    client_drain(w->a, 0);
    expect_all_freed(w);
}

static void test_what_was_copied_outlives_the_device(void **state)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* its runtime starts no thread in a child of a process with threads */
#endif
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        make(state, 1);
        lose_the_device(*state);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, setup, teardown),                                        \
        cmocka_unit_test_setup_teardown(name, setup_three, teardown)
    const struct CMUnitTest tests[] = {
        /* It forks: first, while the driver has no threads. */
        cmocka_unit_test(test_what_was_copied_outlives_the_device),
        TEST(test_headers_come_without_a_copy_and_bytes_by_one),
        TEST(test_who_asks_while_the_copy_comes_is_told_to_ask_again),
        TEST(test_all_of_it_in_place_is_not_to_be_had),
        TEST(test_one_copy_is_for_readers_of_all_kinds),
        TEST(test_what_is_not_pinned_keeps_a_quarter_of_the_slots),
        TEST(test_pins_hold_their_slots),
        TEST(test_what_goes_stale_while_it_is_copied_leaves_nothing),
        TEST(test_what_is_given_back_while_it_is_copied_leaves_nothing),
        TEST(test_a_copy_that_fails_is_that_messages_failure),
        TEST(test_what_is_moved_to_host_memory_can_still_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
