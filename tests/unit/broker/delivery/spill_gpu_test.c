/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers that spill, of batches in GPU memory, on the fake driver. The messages that they are
 * behind go to host memory and keep no slot. Late copies hold nobody up. Copies that fail, for
 * whatever reason, leak nothing and lose nothing unsaid.
 */
#include "broker/config/config.h"
#include "broker/delivery/spill.h"
#include "broker/ingest/publisher.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
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
#define SLOTS 16u

struct reader {
    struct shard_client *client;
    uint64_t got, lost, next;
};

struct world {
    struct shard_harness h;
    struct amb_gpus gpus;
    uint32_t topic, host;
    struct shard_client *p;
    struct reader slow, fast; /* of the last shard, of the first */
    struct client_lease lease;
    uint64_t address; /* of the lease */
    uint64_t sent;
};

static const char config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; };\n"
    "           cuda = { size = \"8M\"; devices = ( \"0\" ); }; };\n"
    "topics = ( { match = \"t\"; spill_max = \"1G\"; } );\n";
static const struct client_options maps = {.may_map = true, .answers_offers = true};
static const struct amb_subscription_options spills = {.slow = AMB_SLOW_SPILL, .credit_msgs = 1};

static void read_message(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                         const struct client_stamp *stamp)
{
    struct reader *reader = client->user;
    uint64_t lost = index == frame->first ? frame->lost : 0;
    assert_int_equal(stamp->number, reader->next + lost);
    reader->next = stamp->number + 1;
    reader->got++;
    reader->lost += lost;
}

static void reader_init(struct world *w, struct reader *reader, unsigned shard,
                        const struct client_options *options)
{
    reader->client = shard_client_create(&w->h, shard, options);
    reader->client->on_message = read_message;
    reader->client->user = reader;
    reader->next = 1;
}

static void make(void **state, unsigned shards)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, shards, config);
    harness_gpus_start(&w->h, &w->gpus);
    w->topic = harness_topic(&w->h, "t", shards / 2);
    w->host = harness_topic(&w->h, "host", shards / 2);
    w->p = shard_client_create(&w->h, 0, &maps);
    reader_init(w, &w->slow, shards - 1, NULL);
    reader_init(w, &w->fast, 0, &maps);
    client_open_pub(w->p, 0, w->topic, true);
    client_open_pub(w->p, 1, w->host, true);
    w->address = client_lease_gpu(w->p, &w->gpus, SLOT, SLOTS, &w->lease);
    client_subscribe(w->slow.client, 0, w->topic, &spills);
    harness_settle(&w->h);
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

static struct amb_topic *topic_of_slow(struct world *w)
{
    return harness_topic_on(&w->h, w->topic, w->slow.client->shard);
}

/* Time passes, for the copier too. */
static void tick(struct world *w)
{
    harness_pass(&w->h, AMB_SPILL_AFTER_NS / 10);
    harness_settle(&w->h);
    (void)sched_yield();
}

static void commit(struct world *w, uint32_t slot)
{
    const struct client_stamp stamp = {(uint32_t)w->p->id, 0, ++w->p->pubs[0].messages};
    assert_true(fakecuda_poke(w->address + slot * SLOT, &stamp, sizeof(stamp)));
    client_commit_as(w->p, 0, &w->lease,
                     &(struct client_commit){.offset = slot * SLOT, .len = 60000, .props_len = 16});
    w->sent++;
    harness_settle(&w->h);
}

/* As a publisher that has no more than these slots. */
static void publish(struct world *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        while (w->p->commits >= SLOTS && !client_is_freed(w->p, w->p->commits - SLOTS + 1)) {
            tick(w);
        }
        commit(w, (uint32_t)(w->p->commits % SLOTS));
    }
}

static void await_slots(struct world *w)
{
    while (!client_is_freed(w->p, w->p->commits) ||
           !client_is_freed(w->p, w->p->commits - SLOTS + 1)) {
        tick(w);
    }
}

static void finish(struct world *w, struct reader *reader)
{
    while (reader->next <= w->sent) {
        client_release_all(reader->client, 0);
        tick(w);
    }
    client_drain(reader->client, 0);
    assert_int_equal(reader->got + reader->lost, w->sent);
}

static uint64_t twins(const struct world *w)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < w->h.count; i++) {
        count += amb_stat_get(&w->h.shards[i].stats->twins);
    }
    return count;
}

static void test_it_keeps_none_of_the_gpus_memory(void **state)
{
    struct world *w = *state;
    publish(w, 6 * SLOTS);
    await_slots(w);
    assert_int_equal(w->slow.got, 1);
    assert_true(topic_of_slow(w)->spill.msgs >= 6 * SLOTS - 2);
    assert_int_equal(topic_of_slow(w)->spill.failed, 0);
    client_lease_close(w->p, &w->lease); /* And so it goes while they wait. */
    harness_settle(&w->h);
    assert_int_equal(amb_gpu_pool_used(&w->gpus.pools[0]), 0);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
    assert_int_equal(twins(w), 6 * SLOTS); /* once each */
}

static void test_beside_a_fast_one_there_is_one_copy_for_both(void **state)
{
    struct world *w = *state;
    client_subscribe(w->fast.client, 0, w->topic, NULL);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 4 * SLOTS; i++) {
        publish(w, 1);
        while (w->fast.got < w->sent) {
            tick(w);
        }
        client_release_all(w->fast.client, 0);
    }
    await_slots(w);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost + w->fast.lost, 0);
    assert_int_equal(twins(w), 4 * SLOTS);
}

static void test_a_late_copy_holds_up_nobody(void **state)
{
    struct world *w = *state;
    client_subscribe(w->fast.client, 0, w->host, NULL);
    harness_settle(&w->h);
    publish(w, 1);
    while (w->slow.got < 1) {
        tick(w);
    }
    fakecuda_hold(true);
    publish(w, SLOTS - 1);
    for (unsigned i = 0; i < 20; i++) {
        tick(w);
        client_send(w->p, 1, 1, 100);
        harness_settle(&w->h);
    }
    w->fast.client->on_message = NULL;
    assert_int_equal(w->fast.client->subs[0].last, 20);
    assert_int_equal(topic_of_slow(w)->spill.msgs, 0);
    fakecuda_hold(false);
    client_release_all(w->fast.client, 0);
    await_slots(w);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 0);
}

static void test_who_goes_while_copies_are_under_way_leaves_nothing(void **state)
{
    struct world *w = *state;
    publish(w, 1);
    while (w->slow.got < 1) {
        tick(w);
    }
    fakecuda_hold(true);
    publish(w, SLOTS - 1);
    for (unsigned i = 0; i < 20; i++) {
        tick(w);
    }
    client_close(w->slow.client, true);
    client_die(w->slow.client);
    harness_settle(&w->h);
    fakecuda_hold(false);
    await_slots(w);
    assert_int_equal(topic_of_slow(w)->log.msgs, 0);
}

static void test_what_it_reads_while_it_is_copied_comes_once(void **state)
{
    struct world *w = *state;
    publish(w, 1);
    while (w->slow.got < 1) {
        tick(w);
    }
    fakecuda_hold(true);
    publish(w, SLOTS - 1);
    for (unsigned i = 0; i < 20; i++) {
        tick(w);
    }
    client_release_all(w->slow.client, 0);
    harness_settle(&w->h);
    fakecuda_hold(false);
    finish(w, &w->slow);
    await_slots(w);
    assert_int_equal(w->slow.lost, 0);
}

/* This reader has nothing but the copy. */
static void test_a_copy_that_fails_is_one_message_lost(void **state)
{
    struct world *w = *state;
    fakecuda_fail("cuMemcpyAsync:9=1");
    publish(w, SLOTS);
    while (topic_of_slow(w)->spill.msgs + topic_of_slow(w)->spill.failed < SLOTS - 1) {
        tick(w);
    }
    finish(w, &w->slow);
    await_slots(w);
    assert_int_equal(w->slow.lost, 1);
    assert_int_equal(topic_of_slow(w)->spill.failed, 1);
    publish(w, 3 * SLOTS);
    finish(w, &w->slow);
    assert_int_equal(w->slow.lost, 1);
}

static void test_without_host_memory_the_oldest_go(void **state)
{
    struct world *w = *state;
    publish(w, 400); /* 24 MB, where there are 16 */
    await_slots(w);
    finish(w, &w->slow);
    assert_true(w->slow.lost > 100 && w->slow.got > 150);
}

/* In a process of its own: a device that is lost stays so. */
static void lose_the_device(struct world *w)
{
    for (unsigned i = 0; i < SLOTS / 2; i++) {
        commit(w, i);
    }
    while (topic_of_slow(w)->spill.msgs < SLOTS / 2 - 1) { /* The reader has one. */
        tick(w);
    }
    fakecuda_fail("cuMemcpyAsync:1=719");
    for (unsigned i = SLOTS / 2; i < SLOTS; i++) {
        commit(w, i);
    }
    while (amb_gpu_pool_is_sound(&w->gpus.pools[0])) {
        tick(w);
    }
    for (unsigned i = 0; i < 30; i++) {
        tick(w);
    }
    client_send(w->p, 0, 1, 64);
    w->sent++;
    harness_settle(&w->h);
    finish(w, &w->slow);
    assert_true(w->slow.got >= 9 && w->slow.lost >= 6); /* The messages that were moved before are
                                                         * there. */
    assert_int_equal(w->slow.got + w->slow.lost, SLOTS + 1);
    harness_settle(&w->h);
    assert_true(client_is_freed(w->p, w->p->commits));
}

static void test_what_was_moved_outlives_the_device(void **state)
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
        cmocka_unit_test(test_what_was_moved_outlives_the_device),
        TEST(test_it_keeps_none_of_the_gpus_memory),
        TEST(test_beside_a_fast_one_there_is_one_copy_for_both),
        TEST(test_a_late_copy_holds_up_nobody),
        TEST(test_who_goes_while_copies_are_under_way_leaves_nothing),
        TEST(test_what_it_reads_while_it_is_copied_comes_once),
        TEST(test_a_copy_that_fails_is_one_message_lost),
        TEST(test_without_host_memory_the_oldest_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
