/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads that a link fetches straight into GPU memory, on the fake driver. The tests say which
 * batches go there, and the share of each reader. Each slot comes back, whatever happens meanwhile.
 */
#include "broker/shard/gpuslot.h"

#include "broker/config/config.h"
#include "broker/ingest/ingest.h"
#include "broker/ingest/publisher.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/segment_lease.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_gpu.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE (UINT64_C(1) << 20)
#define BODY_MAX (LARGE + 4096)

struct world {
    struct shard_harness h;
    struct amb_gpus gpus;
    uint32_t topic, verified, keyed;
    struct shard_client *p, *host, *gpu; /* of the first, the last and the middle shard */
    uint8_t *body;
    int mirror_fd; /* the pool's content, readable */
    uint8_t *mirror;
    bool is_broken; /* fetches fail */
    uint64_t taken; /* bytes of the pool that a link took last */
};

static struct world *world; /* of the test that runs: the hooks below are given none */

static const char config[] =
    "memory = { host = { size = \"32M\"; segment = \"4M\"; grow_on_demand = true; };\n"
    "           cuda = { size = \"8M\"; devices = ( \"0\" ); }; };\n"
    "topics = ( { match = \"v\"; trust = \"verify\"; }, { match = \"t\"; spill_max = \"1G\"; },\n"
    "           { match = \"k\"; retain = { keys = 8; }; } );\n";

/* The link's: what the clients send and receive is host memory in these tests. */
static bool copy(void *to, const void *from, uint64_t len)
{
    uint64_t at = (uintptr_t)to - world->gpus.pools[0].base;
    uint64_t from_at = (uintptr_t)from - world->gpus.pools[0].base;
    if (from_at < world->gpus.pools[0].size) {
        world->taken = len;
        return fakecuda_peek((uintptr_t)from, to, len);
    }
    assert_true(at < world->gpus.pools[0].size && len <= world->gpus.pools[0].size - at);
    if (world->is_broken) {
        return false;
    }
    memcpy(world->mirror + at, from, len);
    return fakecuda_poke((uintptr_t)to, from, len);
}

/* A client that opens what it is offered at once. */
static void offer_gpu(struct amb_shard *shard, uint64_t client_id,
                      const struct amb_segment *segment)
{
    (void)shard;
    struct shard_client *client = world->h.clients[client_id];
    struct client_segment *at = &client->segments[client->segment_count++];
    *at = (struct client_segment){.id = segment->id, .size = segment->size};
    at->fd = dup(world->mirror_fd);
    at->base = mmap(NULL, segment->size, PROT_READ, MAP_SHARED, at->fd, (off_t)segment->gpu_offset);
    assert_true(at->base != MAP_FAILED);
    client_send_frame(client,
                      &(struct amb_frame){.type = AMB_FRAME_SEG_READY, .segment = segment->id});
}

static void make_mirror(struct world *w)
{
    uint64_t size = w->gpus.pools[0].size;
    w->mirror_fd = memfd_create("mirror", 0);
    assert_int_equal(ftruncate(w->mirror_fd, (off_t)size), 0);
    w->mirror = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, w->mirror_fd, 0);
    assert_true(w->mirror != MAP_FAILED);
}

/* Its memory is not touched. */
static const char large_config[] =
    "memory = { host = { size = \"32M\"; segment = \"4M\"; };\n"
    "           cuda = { size = \"2G\"; devices = ( \"0\" ); }; };\n";

static void make(void **state, unsigned shards)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    world = w;
    harness_init(&w->h, shards, config);
    harness_gpus_start(&w->h, &w->gpus);
    make_mirror(w);
    w->h.upcalls.offer_gpu = offer_gpu;
    w->body = aligned_alloc(64, BODY_MAX);
    w->topic = harness_topic(&w->h, "t", shards / 2);
    w->verified = harness_topic(&w->h, "v", 0);
    w->keyed = harness_topic(&w->h, "k", 0);
    w->p = shard_client_create(&w->h, 0, &(struct client_options){.link_copy = copy});
    w->host = shard_client_create(
        &w->h, shards - 1, &(struct client_options){.may_map = true, .answers_offers = true});
    w->gpu = shard_client_create(&w->h, shards / 2, NULL);
    w->gpu->session->may_map_gpu = true;
    client_open_pub(w->p, 0, w->topic, true);
    client_open_pub(w->p, 1, w->verified, true);
    client_open_pub(w->p, 2, w->keyed, true);
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
    harness_fini(&w->h);
    (void)munmap(w->mirror, w->gpus.pools[0].size);
    (void)close(w->mirror_fd);
    harness_gpus_stop(&w->gpus);
    free(w->body);
    free(w);
    return 0;
}

static uint64_t received(const struct world *w)
{
    return w->gpus.pools[0].received;
}

static void fill(struct world *w, uint32_t handle, uint64_t len)
{
    const struct client_stamp stamp = {(uint32_t)w->p->id, handle, ++w->p->pubs[handle].messages};
    for (uint64_t i = 0; i < len; i++) {
        w->body[i] = (uint8_t)(stamp.number * 31 + i * 7 + (i >> 8));
    }
    memcpy(w->body, &stamp, sizeof(stamp));
}

static struct amb_frame head_of(struct world *w, uint32_t handle, uint64_t len)
{
    struct client_pub *pub = &w->p->pubs[handle];
    pub->bytes += len + sizeof(struct amb_record);
    return (struct amb_frame){.type = AMB_FRAME_BATCH,
                              .flags = AMB_FRAME_FLAG_DEVICE,
                              .handle = handle,
                              .count = 1,
                              .seq = ++pub->batches,
                              .data_len = len,
                              .meta_len = sizeof(struct amb_record)};
}

/* One message, out of the sender's GPU; len: a multiple of 16. */
static void publish(struct world *w, uint32_t handle, uint64_t len)
{
    uint64_t bytes = w->p->pubs[handle].bytes + len + sizeof(struct amb_record);
    if (bytes > w->p->pubs[handle].window) {
        client_want(w->p, handle, bytes);
        amb_link_flush(w->p->link);
        harness_settle(&w->h);
        assert_true(bytes <= w->p->pubs[handle].window);
    }
    fill(w, handle, len);
    const struct amb_record record = {.len = (uint32_t)len};
    memcpy(w->body + len, &record, sizeof(record));
    const struct amb_frame frame = head_of(w, handle, len);
    client_send_body(w->p, &frame, w->body);
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

static uint64_t used(struct world *w)
{
    return amb_gpu_pool_used(&w->gpus.pools[0]);
}

/* The open part of windows is reserved, beside a buffer or not, and nothing else is. */
static void expect_reserved(struct world *w)
{
    const struct amb_session *session = w->p->session;
    uint64_t open = 0;
    for (uint32_t i = 0; i < 3 && session != NULL; i++) {
        const struct amb_publisher *pub = amb_session_publisher(session, i);
        open += pub == NULL                  ? 0
                : pub->prepared.data != NULL ? pub->reserved
                                             : pub->window - pub->received;
    }
    assert_int_equal(w->h.shards[0].memory.bufpool.reserved, open);
    assert_int_equal(session != NULL ? session->reserved : 0, open);
}

/* All that is read is given back, and a second passes. */
static void expect_all_back(struct world *w)
{
    client_release_all(w->host, 0);
    client_release_all(w->gpu, 0);
    harness_settle(&w->h);
    harness_pass(&w->h, INT64_C(2000000000));
    harness_settle(&w->h);
    assert_int_equal(used(w), 0);
    if (w->p->session != NULL && w->p->ended == 0) {
        assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes);
        assert_int_equal(w->p->pubs[0].accepted, w->p->pubs[0].batches);
        expect_reserved(w);
    }
}

static void test_readers_have_it_in_place_and_in_host_memory(void **state)
{
    struct world *w = *state;
    client_subscribe(w->gpu, 0, w->topic, &(struct amb_subscription_options){.mem = AMB_MEM_CUDA});
    client_subscribe(w->host, 0, w->topic, NULL);
    harness_settle(&w->h);
    for (uint64_t i = 1; i <= 10; i++) {
        publish(w, 0, 48000 + i * 16);
        assert_int_equal(received(w), i);
        await(w, w->gpu, i);
        await(w, w->host, i);
        const struct client_delivery *gpu = client_delivery(w->gpu, 0, i);
        const struct client_delivery *host = client_delivery(w->host, 0, i);
        assert_int_equal(gpu->frame.type, AMB_FRAME_MAP_LEASED);
        assert_int_equal(gpu->stamp.number, i);
        assert_memory_equal(gpu->payload, w->body, 48000 + i * 16);
        assert_int_equal(host->stamp.number, i);
        if (i > 1) { /* The first goes by copy while its segment is mapped. */
            assert_int_equal(host->frame.type, AMB_FRAME_MAP);
            assert_memory_equal(host->payload, w->body, 48000 + i * 16);
        }
        client_release_all(w->gpu, 0);
        client_release_all(w->host, 0);
    }
    assert_int_equal(used(w), 2 << 20);
    expect_all_back(w);
    publish(w, 0, 48000); /* And anew. */
    assert_int_equal(received(w), 11);
    await(w, w->gpu, 11);
    await(w, w->host, 11);
    expect_all_back(w);
}

/* Begun, and not whole. */
static void *begin(struct world *w, uint64_t data_len, uint64_t len, uint32_t record_len,
                   enum amb_status expected)
{
    const struct amb_record record = {.len = record_len};
    const struct amb_frame frame = head_of(w, 0, data_len);
    void *dst = NULL, *cookie = NULL;
    assert_int_equal(amb_ingest_device(w->p->session, &frame, &record, len, &dst, &cookie),
                     expected);
    assert_true((dst != NULL) == (expected == AMB_OK));
    return cookie;
}

/* The messages that by_link readers get. */
static void on_far_message(struct shard_client *client, const struct amb_frame *frame,
                           uint32_t index, const struct client_stamp *stamp)
{
    (void)client;
    (void)index;
    (void)stamp;
    assert_int_equal(frame->type, AMB_FRAME_DELIVER);
    assert_int_equal(frame->flags, AMB_FRAME_FLAG_DEVICE);
    assert_int_equal(frame->count, 1);
}

static void test_a_link_takes_it_from_there_to_those_who_wish(void **state)
{
    struct world *w = *state;
    struct shard_client *far = shard_client_create(
        &w->h, w->h.count - 1, &(struct client_options){.link_copy = copy, .link_bytes_max = 1});
    far->on_message = on_far_message;
    client_subscribe(far, 0, w->topic,
                     &(struct amb_subscription_options){.by_link = true, .credit_msgs = 4});
    harness_settle(&w->h);
    for (uint64_t i = 1; i <= 8; i++) {
        publish(w, 0, LARGE / 2 + i * 16);
        await(w, far, i);
        assert_int_equal(client_delivery(far, 0, i)->stamp.number, i);
        assert_int_equal(w->h.shards[w->h.count - 1].stats->twins, 0);
        client_release_all(far, 0);
        harness_settle(&w->h);
    }
    assert_int_equal(received(w), 8);
    far->on_message = NULL; /* Small ones, and those of a lost device, are host memory's. */
    publish(w, 0, 2048);
    await(w, far, 9);
    assert_int_equal(client_delivery(far, 0, 9)->frame.flags, AMB_FRAME_FLAG_NONE);
    assert_int_equal(client_delivery(far, 0, 9)->stamp.number, 9);
    client_release_all(far, 0);
    expect_all_back(w);
}

static void test_nobody_gets_what_pads_it(void **state)
{
    struct world *w = *state;
    struct shard_client *far =
        shard_client_create(&w->h, 0, &(struct client_options){.link_copy = copy});
    client_subscribe(far, 0, w->topic, &(struct amb_subscription_options){.by_link = true});
    harness_settle(&w->h);
    memset(w->mirror, 0xee, LARGE);
    assert_true(fakecuda_poke(w->gpus.pools[0].base, w->mirror, LARGE)); /* Somebody else's. */
    client_want(w->p, 0, LARGE);
    amb_link_flush(w->p->link);
    harness_settle(&w->h);
    const uint32_t len = (192u << 10) + 1;
    void *cookie = begin(w, amb_payload_padded(len), len, len, AMB_OK);
    fill(w, 0, len);
    assert_true(fakecuda_poke(w->gpus.pools[0].base, w->body, len));
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_OK), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(client_delivery(far, 0, 1)->frame.flags, AMB_FRAME_FLAG_DEVICE);
    assert_int_equal(w->taken, len);
    client_release_all(far, 0);
    expect_all_back(w);
}

static void test_without_room_it_goes_to_host_memory(void **state)
{
    struct world *w = *state;
    client_subscribe(
        w->gpu, 0, w->topic,
        &(struct amb_subscription_options){.mem = AMB_MEM_CUDA, .credit_bytes = 64 * LARGE});
    harness_settle(&w->h);
    for (uint64_t i = 1; i <= 6; i++) {
        publish(w, 0, LARGE);
        assert_int_equal(received(w), i < 4 ? i : 4); /* Half of the pool, of one worker. */
        assert_int_equal(client_delivery(w->gpu, 0, i)->frame.type,
                         i <= 4 ? AMB_FRAME_MAP_LEASED : AMB_FRAME_DELIVER);
        assert_int_equal(client_delivery(w->gpu, 0, i)->stamp.number, i);
        expect_reserved(w);
    }
    assert_int_equal(w->gpus.pools[0].missed, 2);
    assert_non_null(strstr(w->gpus.pools[0].missed_why, "no room"));
    client_release_all(w->gpu, 0);
    harness_settle(&w->h);
    publish(w, 0, LARGE);
    assert_int_equal(received(w), 5);
    client_release_all(w->gpu, 0);
    harness_settle(&w->h);
    publish(w, 0, 48000); /* Another size takes what this one has left. */
    publish(w, 0, 3 * LARGE / 4);
    assert_int_equal(received(w), 7);
    expect_all_back(w);
}

static void test_what_no_worker_may_have_is_not_tried(void **state)
{
    struct world *w = *state;
    assert_null(amb_gpuslot_find(&w->h.shards[0], 4 * LARGE + 1));
    assert_null(amb_gpuslot_find(&w->h.shards[0], AMB_DATA_MAX));
    struct amb_segment_lease *lease = amb_gpuslot_find(&w->h.shards[0], 4 * LARGE);
    assert_non_null(lease);
    assert_int_equal(lease->slots, 1);
    lease = amb_gpuslot_find(&w->h.shards[0], 1); /* In its place: nothing lies there. */
    assert_non_null(lease);
    assert_int_equal(lease->slots, 512); /* of 4 KiB */
    assert_int_equal(used(w), 2 << 20);
    expect_all_back(w);
}

/* A reader that holds on to half of a pool maps each range of it. */
static void test_a_subscriber_can_map_all_that_links_may_fill(void **state)
{
    (void)state;
    struct shard_harness h;
    struct amb_gpus gpus;
    harness_init(&h, 1, large_config);
    harness_gpus_start(&h, &gpus);
    const struct amb_gpu_pool *pool = &gpus.pools[0];
    for (uint64_t len = 4096; len <= 2 * LARGE; len *= 2) {
        const struct amb_segment_lease *lease = amb_gpuslot_find(&h.shards[0], len);
        assert_non_null(lease);
        assert_int_equal(lease->segment->size, lease->slots * lease->slot);
        assert_true(pool->size / 2 / lease->segment->size <= AMB_SESSION_SEGMENTS_MAX / 2);
    }
    harness_pass(&h, INT64_C(2000000000));
    harness_fini(&h);
    harness_gpus_stop(&gpus);
}

static void test_memory_that_has_no_handle_is_not_given_to_a_link(void **state)
{
    struct world *w = *state;
    w->gpus.pools[0].is_exported = false;
    assert_null(amb_gpuslot_find(&w->h.shards[0], 48000));
    assert_non_null(strstr(w->gpus.pools[0].missed_why, "exported"));
}

static void test_a_topic_that_is_verified_takes_host_memory(void **state)
{
    struct world *w = *state;
    publish(w, 1, 48000);
    assert_int_equal(received(w), 0);
    assert_int_equal(w->p->settles[0].status, AMB_OK);
}

static void test_a_topic_that_keeps_the_newest_of_a_key_takes_host_memory(void **state)
{
    struct world *w = *state;
    publish(w, 2, 48000);
    assert_int_equal(received(w), 0);
    assert_int_equal(w->p->settles[0].status, AMB_OK);
}

static void test_links_have_none_of_a_pool_that_nobody_is_trusted_with(void **state)
{
    (void)state;
    struct amb_config none = {.memory.cuda.trust = AMB_GPU_TRUST_NONE};
    struct amb_topic_rule rule = {.trust = AMB_TRUST_PUBLISHER};
    assert_false(amb_gpuslot_may_link(&none));
    assert_false(amb_gpuslot_suits(&none, &rule));
    none.memory.cuda.trust = AMB_GPU_TRUST_USER;
    assert_true(amb_gpuslot_may_link(&none));
    assert_true(amb_gpuslot_suits(&none, &rule));
}

static void test_all_workers_together_have_half_of_a_pool(void **state)
{
    struct world *w = *state;
    struct amb_segment_lease *first = amb_gpuslot_find(&w->h.shards[0], 2 * LARGE);
    struct amb_segment_lease *second = amb_gpuslot_find(&w->h.shards[1], 2 * LARGE);
    assert_true(first != NULL && second != NULL);
    assert_null(amb_gpuslot_find(&w->h.shards[2], LARGE));
    assert_int_equal(used(w), 4 << 20);
    harness_pass(&w->h, INT64_C(2000000000));
    harness_settle(&w->h);
    assert_non_null(amb_gpuslot_find(&w->h.shards[2], LARGE));
    expect_all_back(w);
}

/* Its slot is kept from others, however little of that it fills. */
static void test_a_message_is_charged_its_slot(void **state)
{
    struct world *w = *state;
    client_subscribe(w->host, 0, w->topic, NULL);
    harness_settle(&w->h);
    void *cookie = begin(w, 8208, 8208, 8208, AMB_OK);
    const struct amb_entry *entry = cookie;
    assert_true(amb_entry_charge(entry) >= 16384);
    w->p->pubs[0].messages++;
    w->gpus.pools[0].is_lost = true; /* It is refused. */
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_OK), AMB_OK);
    harness_settle(&w->h);
    expect_all_back(w);
}

/* One that holds the log passes one that spills, in one go, and the messages that it passes have
 * its copies. */
static void test_what_is_moved_to_host_memory_is_granted(void **state)
{
    struct world *w = *state;
    client_subscribe(w->gpu, 0, w->topic,
                     &(struct amb_subscription_options){
                         .mem = AMB_MEM_CUDA, .credit_msgs = 8, .slow_block_ns = INT64_MAX});
    client_subscribe(w->host, 0, w->topic,
                     &(struct amb_subscription_options){.slow_block_ns = INT64_MAX});
    client_subscribe(w->host, 1, w->topic,
                     &(struct amb_subscription_options){.slow = AMB_SLOW_SPILL, .credit_msgs = 1});
    harness_settle(&w->h);
    for (uint64_t i = 1; i <= 16; i++) {
        publish(w, 0, LARGE / 4);
        await(w, w->host, i);
        client_release_all(w->host, 0);
    }
    assert_int_equal(received(w), 16);
    assert_int_equal(w->gpu->subs[0].last, 8);
    harness_pass(&w->h, INT64_C(100000000));
    for (unsigned i = 0; used(w) != 0 || w->host->subs[1].last < 16; i++) {
        assert_true(i < 100000);
        client_release_all(w->gpu, 0);
        client_release_all(w->host, 1);
        harness_pass(&w->h, INT64_C(100000000));
        harness_settle(&w->h);
        (void)sched_yield();
    }
    assert_int_equal(w->gpu->subs[0].last, 16);
    client_release_all(w->host, 1);
    expect_all_back(w);
}

static void test_a_slow_reader_keeps_no_slot(void **state)
{
    struct world *w = *state;
    client_subscribe(w->host, 0, w->topic,
                     &(struct amb_subscription_options){.slow = AMB_SLOW_SPILL, .credit_msgs = 1});
    harness_settle(&w->h);
    for (unsigned i = 0; i < 12; i++) {
        publish(w, 0, 48000);
    }
    for (unsigned i = 0; used(w) != 0; i++) {
        assert_true(i < 100000);
        harness_pass(&w->h, INT64_C(100000000));
        harness_settle(&w->h);
        (void)sched_yield();
    }
    assert_int_equal(received(w), 12);
    for (uint64_t i = 1; i <= 12; i++) {
        await(w, w->host, i);
        assert_int_equal(client_delivery(w->host, 0, i)->stamp.number, i);
        assert_int_equal(client_delivery(w->host, 0, i)->frame.lost, 0);
        client_release_all(w->host, 0);
        harness_settle(&w->h);
    }
    expect_all_back(w);
}

/* A client on another link says what it likes. */
static void test_a_link_that_takes_no_gpu_memory_ignores_the_flag(void **state)
{
    struct world *w = *state;
    struct shard_client *publisher = w->p;
    client_open_pub(w->host, 0, w->topic, true);
    w->p = w->host; /* It publishes instead. */
    publish(w, 0, 48000);
    w->p = publisher;
    assert_int_equal(w->host->settles[0].status, AMB_OK);
    assert_int_equal(received(w), 0);
    assert_int_equal(used(w), 0);
}

/* Its sender may still be writing there. */
static void test_where_a_transfer_failed_nothing_else_comes_for_a_while(void **state)
{
    struct world *w = *state;
    void *cookie = begin(w, 16000, 16000, 16000, AMB_OK);
    const struct amb_segment *spoiled = ((struct amb_entry *)cookie)->segment;
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_ELOST), AMB_OK);
    for (unsigned second = 0; second < 9; second++) {
        const struct amb_segment_lease *lease = amb_gpuslot_find(&w->h.shards[0], 16000);
        assert_non_null(lease);
        assert_ptr_not_equal(lease->segment, spoiled);
        harness_pass(&w->h, INT64_C(1000000000));
        harness_settle(&w->h);
    }
}

static void test_what_never_comes_leaves_nothing(void **state)
{
    struct world *w = *state;
    publish(w, 0, 48000);
    w->is_broken = true;
    publish(w, 0, 48000);
    assert_int_equal(w->p->ended, 1);
    assert_int_equal(w->p->ended_why, AMB_ELOST);
    assert_int_equal(used(w), 2 << 20);
    harness_pass(&w->h, INT64_C(9000000000));
    expect_all_back(w);
    client_close(w->p, false);
    assert_int_equal(w->h.shards[0].memory.bufpool.reserved, 0);
}

static void test_a_record_is_no_longer_than_what_is_fetched(void **state)
{
    struct world *w = *state;
    void *cookie = begin(w, 4096, 4096 - 15, 4096 - 15, AMB_OK);
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_OK), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].accepted, 1);
    (void)begin(w, 4096, 4096 - 15, 4096 - 14, AMB_EPROTO);
    assert_string_equal(w->p->session->broken, "a body that is not what its head says");
}

static void test_a_record_is_as_long_as_its_head_says(void **state)
{
    struct world *w = *state;
    (void)begin(w, 4096, 4096, 4064, AMB_EPROTO);
}

static void test_sessions_end_while_it_comes(void **state)
{
    struct world *w = *state;
    void *cookie = begin(w, 16000, 16000, 16000, AMB_OK);
    expect_reserved(w);
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_ECANCELED), AMB_OK);
    expect_reserved(w);
    cookie = begin(w, 16000, 16000, 16000, AMB_OK);
    client_close_pub(w->p, 0);
    expect_reserved(w);
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_OK), AMB_OK);
    expect_reserved(w);
    harness_pass(&w->h, INT64_C(9000000000));
    harness_settle(&w->h);
    harness_pass(&w->h, INT64_C(2000000000));
    harness_settle(&w->h);
    assert_int_equal(used(w), 0);
}

static void test_a_lost_device_refuses_what_comes_and_takes_no_more(void **state)
{
    struct world *w = *state;
    void *cookie = begin(w, 48000, 48000, 48000, AMB_OK);
    w->p->pubs[0].messages++;
    w->gpus.pools[0].is_lost = true;
    assert_int_equal(amb_ingest_body(w->p->session, cookie, AMB_OK), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(w->p->settles[0].status, AMB_ECUDA);
    client_subscribe(w->host, 0, w->topic, NULL);
    harness_settle(&w->h);
    publish(w, 0, 48000);
    assert_int_equal(client_delivery(w->host, 0, 1)->stamp.number, 2);
    assert_int_equal(received(w), 1);
    assert_non_null(strstr(w->gpus.pools[0].missed_why, "out of use"));
    expect_all_back(w);
}

static void test_a_quota_bounds_what_lies_there(void **state)
{
    struct world *w = *state;
    struct quota_user user;
    quota_user_init(&user);
    quota_limit(user.account, AMB_QUOTA_GPU_BYTES, 2 * AMB_PURSE_PIECE);
    client_close(w->p, false); /* Its windows are nobody's. */
    harness_settle(&w->h);
    w->p = shard_client_create(&w->h, 0, &(struct client_options){.link_copy = copy});
    quota_user_owns(&user, w->p->session);
    client_open_pub(w->p, 0, w->topic, true);
    client_subscribe(w->gpu, 0, w->topic, &(struct amb_subscription_options){.mem = AMB_MEM_CUDA});
    harness_settle(&w->h);
    for (uint64_t i = 1; i <= 3; i++) { /* Each has a slot of 64 KiB; the third has none. */
        publish(w, 0, 48000);
        await(w, w->gpu, i);
        assert_int_equal(received(w), i < 2 ? i : 2);
    }
    assert_int_equal(amb_account_used(user.account, AMB_QUOTA_GPU_BYTES), 2 * AMB_PURSE_PIECE);
    assert_int_equal(atomic_load(&user.account->refused[AMB_QUOTA_GPU_BYTES]), 1);
    client_close(w->p, false); /* They outlive their session. */
    expect_all_back(w);
    quota_user_fini(&user);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    (void)setenv("FAKECUDA_MEMORY", "3G", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_THREE(name) cmocka_unit_test_setup_teardown(name, setup_three, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_readers_have_it_in_place_and_in_host_memory),
        TEST_THREE(test_readers_have_it_in_place_and_in_host_memory),
        TEST(test_a_link_takes_it_from_there_to_those_who_wish),
        TEST_THREE(test_a_link_takes_it_from_there_to_those_who_wish),
        TEST(test_nobody_gets_what_pads_it),
        TEST(test_without_room_it_goes_to_host_memory),
        TEST_THREE(test_without_room_it_goes_to_host_memory),
        TEST(test_what_no_worker_may_have_is_not_tried),
        cmocka_unit_test(test_a_subscriber_can_map_all_that_links_may_fill),
        TEST(test_memory_that_has_no_handle_is_not_given_to_a_link),
        TEST(test_a_topic_that_is_verified_takes_host_memory),
        TEST(test_a_topic_that_keeps_the_newest_of_a_key_takes_host_memory),
        cmocka_unit_test(test_links_have_none_of_a_pool_that_nobody_is_trusted_with),
        TEST_THREE(test_all_workers_together_have_half_of_a_pool),
        TEST(test_a_message_is_charged_its_slot),
        TEST(test_what_is_moved_to_host_memory_is_granted),
        TEST(test_a_slow_reader_keeps_no_slot),
        TEST_THREE(test_a_slow_reader_keeps_no_slot),
        TEST(test_a_link_that_takes_no_gpu_memory_ignores_the_flag),
        TEST(test_where_a_transfer_failed_nothing_else_comes_for_a_while),
        TEST(test_what_never_comes_leaves_nothing),
        TEST(test_a_record_is_no_longer_than_what_is_fetched),
        TEST(test_a_record_is_as_long_as_its_head_says),
        TEST(test_sessions_end_while_it_comes),
        TEST(test_a_lost_device_refuses_what_comes_and_takes_no_more),
        TEST(test_a_quota_bounds_what_lies_there),
        TEST_THREE(test_a_quota_bounds_what_lies_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
