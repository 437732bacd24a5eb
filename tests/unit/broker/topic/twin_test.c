/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches in GPU memory, on the fake driver. Readers of host memory get one copy, which keeps no
 * slot. A copy that fails is a message that they lose, and nothing else. A lost device refuses new
 * commits.
 */
#include "broker/topic/twin.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/segment_lease.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/quota.h"
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

struct world {
    struct shard_harness h;
    struct amb_gpus gpus;
    uint32_t topic, verified;
    struct shard_client *p, *a, *b, *c, *d; /* of the first, the last and the middle shard */
    struct client_lease lease;
    uint64_t address; /* of the lease */
};

static const char config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; };\n"
    "           cuda = { size = \"8M\"; devices = ( \"0\" ); }; };\n"
    "topics = ( { match = \"v\"; trust = \"verify\"; } );\n";
static const char large_config[] =
    "memory = { host = { size = \"64M\"; segment = \"2M\"; grow_on_demand = true; };\n"
    "           cuda = { size = \"64M\"; devices = ( \"0\" ); }; };\n";
static const struct client_options maps = {.may_map = true, .answers_offers = true};

static void make(void **state, unsigned shards, const char *text)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, shards, text);
    harness_gpus_start(&w->h, &w->gpus);
    w->topic = harness_topic(&w->h, "t", shards / 2);
    w->verified = harness_topic(&w->h, "v", 0);
    w->p = shard_client_create(&w->h, 0, &maps);
    w->a = shard_client_create(&w->h, shards - 1, NULL);
    w->b = shard_client_create(&w->h, shards - 1, &maps);
    w->c = shard_client_create(&w->h, shards / 2, &maps);
    w->d = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->p, 0, w->topic, true);
    client_open_pub(w->p, 1, w->verified, true);
    w->address = client_lease_gpu(w->p, &w->gpus, SLOT, SLOTS, &w->lease);
    *state = w;
}

static int setup(void **state)
{
    make(state, 1, config);
    return 0;
}

static int setup_large(void **state)
{
    make(state, 1, large_config);
    return 0;
}

static int setup_large_three(void **state)
{
    make(state, 3, large_config);
    return 0;
}

static int setup_three(void **state)
{
    make(state, 3, config);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    fakecuda_fail(NULL);
    harness_fini(&w->h);
    harness_gpus_stop(&w->gpus);
    free(w);
    return 0;
}

/* One message in that slot, as a kernel would have written it. */
static void commit(struct world *w, uint32_t handle, uint32_t slot, uint32_t len)
{
    const struct client_stamp stamp = {(uint32_t)w->p->id, handle, ++w->p->pubs[handle].messages};
    assert_true(fakecuda_poke(w->address + slot * SLOT, &stamp, sizeof(stamp)));
    client_commit_as(w->p, handle, &w->lease,
                     &(struct client_commit){.offset = slot * SLOT, .len = len, .props_len = 16});
    harness_settle(&w->h);
}

/* The copier works on its own. */
static void await(struct world *w, const struct shard_client *client, uint64_t deliveries)
{
    while (client->subs[0].last < deliveries) {
        harness_settle(&w->h);
        (void)sched_yield();
    }
}

static uint64_t twins(const struct world *w)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < w->h.count; i++) {
        count += amb_stat_get(&w->h.shards[i].stats->twins);
    }
    return count;
}

static void test_readers_of_host_memory_share_one_copy(void **state)
{
    struct world *w = *state;
    client_subscribe(w->a, 0, w->topic, NULL);
    client_subscribe(w->b, 0, w->topic, NULL);
    for (uint32_t i = 0; i < 5; i++) {
        commit(w, 0, i, 50000);
        await(w, w->a, i + 1);
        await(w, w->b, i + 1);
        assert_int_equal(client_delivery(w->a, 0, i + 1)->stamp.number, i + 1);
        assert_int_equal(client_delivery(w->b, 0, i + 1)->stamp.number, i + 1);
        assert_int_equal(twins(w), i + 1);
    }
    assert_int_equal(w->gpus.pools[0].staged_bytes, 5 * 50000);
    const struct amb_paths *went = &w->a->session->paths.out, *came = &w->p->session->paths.in;
    assert_int_equal(went->of[AMB_PATH_GPU].msgs[AMB_PATH_STAGED], 5);
    assert_int_equal(went->not_best[AMB_PATH_GPU], AMB_PATH_LINK); /* It may not map there. */
    assert_int_equal(came->of[AMB_PATH_GPU].msgs[AMB_PATH_IN_PLACE], 5);
    /* Held copies keep no slot. */
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
    client_release_all(w->a, 0);
    client_release_all(w->b, 0);
    harness_settle(&w->h);
}

static void test_readers_on_all_workers_share_one_copy(void **state)
{
    struct world *w = *state;
    struct shard_client *all[] = {w->a, w->b, w->c, w->d};
    for (unsigned i = 0; i < 4; i++) {
        client_subscribe(all[i], 0, w->topic, NULL);
    }
    for (uint32_t n = 0; n < 20; n++) {
        commit(w, 0, n, 3000);
    }
    for (unsigned i = 0; i < 4; i++) {
        await(w, all[i], 20);
        assert_int_equal(client_delivery(all[i], 0, 20)->stamp.number, 20);
    }
    assert_int_equal(twins(w), 20);
    assert_int_equal(w->gpus.pools[0].staged_bytes, 20 * 3000);
    for (unsigned i = 0; i < 4; i++) {
        client_release_all(all[i], 0);
    }
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_all_workers_lose_what_could_not_be_copied(void **state)
{
    struct world *w = *state;
    client_subscribe(w->a, 0, w->topic, NULL);
    client_subscribe(w->c, 0, w->topic, NULL);
    fakecuda_fail("cuMemcpyAsync:1=1");
    commit(w, 0, 0, 1000);
    commit(w, 0, 1, 1000);
    await(w, w->a, 1);
    await(w, w->c, 1);
    assert_int_equal(client_delivery(w->a, 0, 1)->frame.lost, 1);
    assert_int_equal(client_delivery(w->c, 0, 1)->frame.lost, 1);
    client_release_all(w->a, 0);
    client_release_all(w->c, 0);
    harness_settle(&w->h);
}

#define MANY 4096u

/* Calls of the driver, a message, for so many batches of so many messages that wait. */
static double calls_of(struct world *w, const struct client_lease *lease, uint32_t batches,
                       uint32_t count, uint32_t len)
{
    uint64_t delivered = w->a->subs[0].last, made = twins(w);
    unsigned long before = fakecuda_calls();
    fakecuda_hold(true);
    for (uint32_t i = 0; i < batches; i++) {
        client_commit(w->p, 0, lease, i * count, count, len);
        harness_settle(&w->h);
    }
    fakecuda_hold(false);
    while (twins(w) < made + batches) {
        harness_settle(&w->h);
        (void)sched_yield();
    }
    unsigned long calls = fakecuda_calls() - before;
    harness_settle(&w->h);
    assert_true(w->a->subs[0].last > delivered);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    return (double)calls / (batches * count);
}

static void test_a_copy_costs_the_same_however_many_wait(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    (void)client_lease_gpu(w->p, &w->gpus, 4096, MANY, &lease);
    client_subscribe(w->a, 0, w->topic,
                     &(struct amb_subscription_options){.credit_msgs = 2 * MANY});
    (void)calls_of(w, &lease, 1, 1, 64); /* The copier is bound to the device. */
    double one = calls_of(w, &lease, 1, 1, 64), some = calls_of(w, &lease, 64, 1, 64);
    double many = calls_of(w, &lease, MANY, 1, 64), batched = calls_of(w, &lease, 4, 1000, 64);
    double large = calls_of(w, &w->lease, 16, 1, 65536);
    (void)printf("driver calls a message of 64 bytes, 1, 64 and %u batches waiting: %.2f, %.2f, "
                 "%.2f; 4 batches of 1000: %.2f; 16 of 64 KiB: %.2f\n",
                 MANY, one, some, many, batched, large);
    assert_true(one <= 3 && some <= 1.3 && many <= 1.3 && batched <= 1.1 && large <= 2);
}

static void test_nothing_is_copied_ahead_beyond_a_readers_credit(void **state)
{
    struct world *w = *state;
    client_subscribe(w->a, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 4});
    fakecuda_hold(true);
    for (uint32_t i = 0; i < 10; i++) {
        commit(w, 0, i, 1000);
    }
    fakecuda_hold(false);
    await(w, w->a, 4);
    for (unsigned i = 0; i < 20000 && twins(w) < 5; i++) { /* The copier is a thread of its own. */
        harness_settle(&w->h);
        (void)usleep(1000);
    }
    for (unsigned i = 0; i < 20; i++) { /* No more come. */
        harness_settle(&w->h);
        (void)usleep(1000);
    }
    assert_int_equal(w->a->subs[0].last, 4);
    assert_int_equal(twins(w), 5); /* The next one, too: that is asked for in any case. */
    for (uint64_t delivered = 4; delivered < 10; delivered++) {
        client_release_all(w->a, 0);
        await(w, w->a, delivered + 1);
    }
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(twins(w), 10);
    assert_int_equal(w->p->freed, w->p->commits);
}

/* As behind amb_gpus_stop in the broker's end: nobody would answer. */
static void test_nothing_is_asked_of_copiers_that_have_ended(void **state)
{
    struct world *w = *state;
    client_subscribe(w->a, 0, w->topic, NULL);
    w->h.shards[0].memory.gpus = NULL;
    commit(w, 0, 0, 1000);
    client_send(w->p, 0, 1, 64);
    await(w, w->a, 1);
    assert_int_equal(client_delivery(w->a, 0, 1)->frame.lost, 1);
    assert_int_equal(twins(w), 0);
    w->h.shards[0].memory.gpus = &w->gpus;
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_nobody_reads_and_nothing_is_copied(void **state)
{
    struct world *w = *state;
    commit(w, 0, 0, 100);
    commit(w, 0, 1, 100);
    assert_int_equal(twins(w), 0);
    assert_int_equal(w->p->freed, 2);
    assert_int_equal(w->p->settles[1].status, AMB_OK);
}

static void test_a_copy_that_fails_is_one_message_lost(void **state)
{
    struct world *w = *state;
    client_subscribe(w->a, 0, w->topic, NULL);
    fakecuda_fail("cuMemcpyAsync:1=1");
    commit(w, 0, 0, 1000);
    commit(w, 0, 1, 1000);
    await(w, w->a, 1);
    assert_int_equal(client_delivery(w->a, 0, 1)->stamp.number, 2);
    assert_int_equal(client_delivery(w->a, 0, 1)->frame.lost, 1);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
    assert_int_equal(w->p->ended + w->a->ended, 0);
}

static void test_who_may_not_map_gpu_memory_gets_the_copy(void **state)
{
    struct world *w = *state;
    client_subscribe(w->b, 0, w->topic, &(struct amb_subscription_options){.mem = AMB_MEM_CUDA});
    commit(w, 0, 0, 1000);
    await(w, w->b, 1);
    assert_int_equal(client_delivery(w->b, 0, 1)->stamp.number, 1);
    client_release_all(w->b, 0);
    harness_settle(&w->h);
}

#define FILL_MAX 1024u
#define FILL 50016u /* the bytes of a twin of 50000 bytes, and of a batch of them */

/* All that a buffer of such a size could be had from. */
static unsigned fill(struct amb_shard *shard, struct amb_buf bufs[FILL_MAX])
{
    unsigned count = 0;
    while (count < FILL_MAX &&
           amb_bufpool_alloc(&shard->memory.bufpool, FILL, &bufs[count]) == AMB_OK) {
        count++;
    }
    assert_in_range(count, 1, FILL_MAX - 1);
    return count;
}

static void empty(struct amb_shard *shard, const struct amb_buf bufs[FILL_MAX], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[i]);
    }
}

static enum amb_status fetch(struct world *w, struct shard_client *client, uint64_t number)
{
    unsigned answers = client->answers;
    client_fetch(client, 0, number, 0, 0, 16);
    harness_settle(&w->h);
    assert_int_equal(client->answers, answers + 1);
    return (enum amb_status)client->answer.status;
}

static enum amb_status fetch_until_here(struct world *w, struct shard_client *client,
                                        uint64_t number)
{
    enum amb_status status;
    while ((status = fetch(w, client, number)) == AMB_EAGAIN) {
        (void)sched_yield();
    }
    return status;
}

/* Room for the twin is made by dropping what is kept for the fetch itself. */
static void test_a_fetch_outlives_the_delivery_that_it_drops(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = w->a->session->shard;
    struct amb_buf bufs[FILL_MAX];
    client_subscribe(w->a, 0, w->topic, &(struct amb_subscription_options){.lazy = AMB_LAZY_ON});
    commit(w, 0, 0, 50000);
    client_send(w->p, 0, 1, 50000);
    harness_settle(&w->h);
    assert_int_equal(w->a->subs[0].last, 2);
    unsigned count = fill(shard, bufs);
    assert_int_equal(fetch(w, w->a, 1), AMB_EAGAIN);
    assert_int_equal(shard->lazy.kept, 0);
    while (twins(w) == 0) {
        harness_settle(&w->h);
        (void)sched_yield();
    }
    assert_int_equal(fetch(w, w->a, 1), AMB_ESTALE);
    empty(shard, bufs, count);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_a_fetch_may_come_when_there_is_memory_again(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = w->a->session->shard;
    struct amb_buf bufs[FILL_MAX];
    client_subscribe(w->a, 0, w->topic, &(struct amb_subscription_options){.lazy = AMB_LAZY_PIN});
    commit(w, 0, 0, 50000);
    unsigned count = fill(shard, bufs);
    assert_int_equal(fetch(w, w->a, 1), AMB_ENOMEM);
    empty(shard, bufs, count);
    assert_int_equal(fetch_until_here(w, w->a, 1), AMB_OK);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_all_workers_lose_what_there_is_no_memory_for(void **state)
{
    struct world *w = *state;
    struct amb_shard *home = w->c->session->shard;
    struct amb_buf bufs[FILL_MAX];
    client_subscribe(w->a, 0, w->topic, NULL);
    client_subscribe(w->c, 0, w->topic, NULL);
    harness_settle(&w->h);
    unsigned count = fill(home, bufs);
    commit(w, 0, 0, 50000);
    empty(home, bufs, count);
    harness_pass(&w->h, 10 * AMB_NS_PER_MS);
    commit(w, 0, 1, 50000);
    await(w, w->a, 1);
    await(w, w->c, 1);
    assert_int_equal(client_delivery(w->a, 0, 1)->stamp.number, 2);
    assert_int_equal(client_delivery(w->a, 0, 1)->frame.lost, 1);
    assert_int_equal(client_delivery(w->c, 0, 1)->frame.lost, 1);
    client_release_all(w->a, 0);
    client_release_all(w->c, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

/* A copy that was asked for ahead, in vain, is asked for again when its reader comes to it. */
static void test_no_memory_ahead_loses_nothing(void **state)
{
    struct world *w = *state;
    struct amb_shard *home = w->c->session->shard;
    struct amb_buf bufs[FILL_MAX];
    client_subscribe(w->a, 0, w->topic, NULL);
    harness_settle(&w->h);
    fakecuda_hold(true);
    commit(w, 0, 0, 50000); /* Its twin is coming. */
    unsigned count = fill(home, bufs);
    commit(w, 0, 1, 50000); /* Asked for ahead: there is no memory now. */
    empty(home, bufs, count);
    fakecuda_hold(false);
    await(w, w->a, 2);
    commit(w, 0, 2, 50000);
    await(w, w->a, 3);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(client_delivery(w->a, 0, i)->frame.lost, 0);
    }
    client_release_all(w->a, 0);
    harness_settle(&w->h);
}

static void test_a_topic_that_verifies_takes_no_gpu_memory(void **state)
{
    struct world *w = *state;
    commit(w, 1, 0, 1000);
    assert_int_equal(w->p->settle_count, 1);
    assert_int_equal(w->p->settles[0].status, AMB_EREJECTED);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_payloads_that_failed_are_refused_in_their_turn(void **state)
{
    struct world *w = *state;
    const struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .handle = 0,
        .seq = ++w->p->pubs[0].batches,
        .number = ++w->p->commits,
        .count = 1,
        .segment = w->lease.segment,
        .status = AMB_ECUDA,
        .data_len = 64,
        .meta_len = 24,
    };
    client_send_frame(w->p, &frame);
    commit(w, 0, 1, 1000);
    assert_int_equal(w->p->settle_count, 2);
    assert_int_equal(w->p->settles[0].status, AMB_ECUDA);
    assert_int_equal(w->p->settles[1].status, AMB_OK);
    assert_int_equal(w->p->freed, w->p->commits);
    assert_int_equal(w->p->ended, 0);
}

static void test_half_of_a_pool_is_one_clients_and_it_comes_back_with_it(void **state)
{
    struct world *w = *state;
    struct amb_session *session = w->p->session;
    struct amb_segment_lease *lease;
    const char *why = "";
    assert_int_equal(amb_segment_lease_open_gpu(session->shard, &session->book, &w->gpus.pools[0],
                                                SLOT, 64, &lease, &why),
                     AMB_ELIMIT);
    assert_int_equal(amb_segment_lease_open_gpu(session->shard, &session->book, &w->gpus.pools[0],
                                                100, 1, &lease, &why),
                     AMB_EINVAL);
    assert_int_equal(session->book.gpu_bytes, AMB_GPU_UNIT);
    /* Its process may still write there: the range waits for its end. */
    client_close(w->p, true);
    harness_settle(&w->h);
    assert_int_equal(amb_gpu_pool_used(&w->gpus.pools[0]), AMB_GPU_UNIT);
    client_die(w->p);
    harness_settle(&w->h);
    assert_int_equal(amb_gpu_pool_used(&w->gpus.pools[0]), 0);
}

static void test_a_quota_bounds_what_is_leased_of_a_pool(void **state)
{
    struct world *w = *state;
    struct amb_session *session = w->p->session;
    struct amb_parties parties;
    struct amb_party *party;
    struct amb_segment_lease *lease;
    const char *why = "";
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, AMB_PARTY_NAMED | 1, "1", &party), AMB_OK);
    session->party = session->book.party = amb_party_ref(party);
    quota_limit(&party->user->account, AMB_QUOTA_GPU_BYTES, AMB_GPU_UNIT - 1);
    assert_int_equal(amb_segment_lease_open_gpu(session->shard, &session->book, &w->gpus.pools[0],
                                                SLOT, 1, &lease, &why),
                     AMB_ELIMIT);
    assert_non_null(strstr(why, "gpu_bytes"));
    quota_limit(&party->user->account, AMB_QUOTA_GPU_BYTES, AMB_GPU_UNIT);
    assert_int_equal(amb_segment_lease_open_gpu(session->shard, &session->book, &w->gpus.pools[0],
                                                SLOT, 1, &lease, &why),
                     AMB_OK);
    uint64_t size = lease->segment->size;
    assert_int_equal(amb_account_used(&party->user->account, AMB_QUOTA_GPU_BYTES), size);
    client_close(w->p, true); /* Its process may still write there. */
    harness_settle(&w->h);
    assert_int_equal(amb_account_used(&party->user->account, AMB_QUOTA_GPU_BYTES), size);
    client_die(w->p);
    harness_settle(&w->h);
    assert_int_equal(amb_account_used(&party->user->account, AMB_QUOTA_GPU_BYTES), 0);
    amb_party_unref(&party);
    amb_parties_fini(&parties);
}

/* In a process of its own: a device that is lost stays so, with all that was made in it. */
static void lose_the_device(struct world *w)
{
    client_subscribe(w->a, 0, w->topic, NULL);
    fakecuda_fail("cuMemcpyAsync:1=719");
    commit(w, 0, 0, 1000);
    while (amb_gpu_pool_is_sound(&w->gpus.pools[0])) {
        harness_settle(&w->h);
        (void)sched_yield();
    }
    commit(w, 0, 1, 1000);
    assert_int_equal(w->p->settles[1].status, AMB_ECUDA);
    client_send(w->p, 0, 1, 64);
    await(w, w->a, 1);
    assert_int_equal(client_delivery(w->a, 0, 1)->frame.lost, 1);
    client_release_all(w->a, 0);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, w->p->commits);
}

static void test_a_lost_device_refuses_and_host_memory_goes_on(void **state)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* its runtime starts no thread in a child of a process with threads */
#endif
    int status = -1;
    pid_t pid = fork(); /* A device is lost for the rest of a process's life. */
    if (pid == 0) {
        make(state, 1, config);
        lose_the_device(*state);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_LARGE(name) cmocka_unit_test_setup_teardown(name, setup_large, teardown)
#define TEST_LARGE_THREE(name) cmocka_unit_test_setup_teardown(name, setup_large_three, teardown)
#define TEST_THREE(name) cmocka_unit_test_setup_teardown(name, setup_three, teardown)
    const struct CMUnitTest tests[] = {
        /* A child; CUDA does not survive fork, so that it comes before a device was used. */
        cmocka_unit_test(test_a_lost_device_refuses_and_host_memory_goes_on),
        TEST(test_readers_of_host_memory_share_one_copy),
        TEST_THREE(test_readers_of_host_memory_share_one_copy),
        TEST(test_readers_on_all_workers_share_one_copy),
        TEST_THREE(test_readers_on_all_workers_share_one_copy),
        TEST_THREE(test_all_workers_lose_what_could_not_be_copied),
        TEST_LARGE(test_a_copy_costs_the_same_however_many_wait),
        TEST_LARGE_THREE(test_a_copy_costs_the_same_however_many_wait),
        TEST(test_nothing_is_copied_ahead_beyond_a_readers_credit),
        TEST_THREE(test_nothing_is_copied_ahead_beyond_a_readers_credit),
        TEST(test_nothing_is_asked_of_copiers_that_have_ended),
        TEST(test_nobody_reads_and_nothing_is_copied),
        TEST(test_a_copy_that_fails_is_one_message_lost),
        TEST_THREE(test_a_copy_that_fails_is_one_message_lost),
        TEST(test_who_may_not_map_gpu_memory_gets_the_copy),
        TEST(test_a_fetch_outlives_the_delivery_that_it_drops),
        TEST(test_a_fetch_may_come_when_there_is_memory_again),
        TEST(test_all_workers_lose_what_there_is_no_memory_for),
        TEST_THREE(test_all_workers_lose_what_there_is_no_memory_for),
        TEST(test_no_memory_ahead_loses_nothing),
        TEST_THREE(test_no_memory_ahead_loses_nothing),
        TEST(test_a_topic_that_verifies_takes_no_gpu_memory),
        TEST(test_payloads_that_failed_are_refused_in_their_turn),
        TEST(test_half_of_a_pool_is_one_clients_and_it_comes_back_with_it),
        TEST(test_a_quota_bounds_what_is_leased_of_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
