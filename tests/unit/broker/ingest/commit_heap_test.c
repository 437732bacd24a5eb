/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leased batches where leases and messages have all memory there is.
 */
#include "broker/ingest/commit.h"
#include "broker/ingest/ingest.h"
#include "broker/ingest/publisher.h"
#include "broker/shard/entry.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    uint32_t topic, verified;
    struct shard_client *p, *reader;
    struct client_lease lease;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1,
                 "memory = { host = { size = \"16M\"; segment = \"2M\"; "
                 "grow_on_demand = true; }; };\n"
                 "topics = ( { match = \"v\"; trust = \"verify\"; } );\n");
    w->topic = harness_topic(&w->h, "t", 0);
    w->verified = harness_topic(&w->h, "v", 0);
    w->p = shard_client_create(&w->h, 0,
                               &(struct client_options){.may_map = true, .answers_offers = true});
    w->reader = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->p, 0, w->topic, true);
    assert_int_equal(client_lease_open(w->p, 65536, 32, &w->lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &w->lease), AMB_OK);
    *state = w;
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

/* Buffers that take the rest of a pool. */
struct used_up {
    struct amb_buf bufs[8192];
    unsigned count;
};

static void use_up(struct amb_bufpool *pool, struct used_up *all)
{
    all->count = 0;
    for (uint64_t len = 65536; len >= 64; len /= 2) {
        while (all->count < 8192 &&
               amb_bufpool_alloc_granted(pool, len, &all->bufs[all->count]) == AMB_OK) {
            all->count++;
        }
    }
}

static void give_back(struct amb_bufpool *pool, struct used_up *all)
{
    while (all->count > 0) {
        amb_bufpool_free(pool, &all->bufs[--all->count]);
    }
}

/* Its payloads have their place, so it is for a few bytes only that it would be refused. */
static void test_without_memory_its_records_lie_in_the_heap(void **state)
{
    struct world *w = *state;
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    struct amb_heap_account *heap = &w->p->session->heap;
    static struct used_up all;
    client_subscribe(w->reader, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 1});
    harness_settle(&w->h);
    use_up(pool, &all);
    uint64_t before = heap->bytes;
    client_commit(w->p, 0, &w->lease, 0, 2, 200);
    harness_settle(&w->h);
    assert_int_equal(w->p->settles[0].status, AMB_OK);
    assert_true(heap->bytes > before);
    /* A session that has used up its heap is refused. */
    uint64_t left = heap->limit - heap->bytes;
    assert_true(amb_heap_charge(heap, left));
    client_commit(w->p, 0, &w->lease, 2, 1, 200);
    harness_settle(&w->h);
    assert_int_equal(w->p->settles[1].status, AMB_ENOMEM);
    amb_heap_give(heap, left);
    /* So is any, where readers keep what sessions have left behind. */
    struct amb_shard *shard = &w->h.shards[0];
    uint64_t bufs_of_entries = shard->memory.heap_bufs;
    assert_true(bufs_of_entries > 0);
    shard->memory.heap_bufs += UINT32_MAX;
    client_commit(w->p, 0, &w->lease, 3, 1, 200);
    harness_settle(&w->h);
    assert_int_equal(w->p->settles[2].status, AMB_ENOMEM);
    shard->memory.heap_bufs = bufs_of_entries;
    give_back(pool, &all);
    client_drain(w->reader, 0);
    assert_int_equal(w->reader->subs[0].msgs, 2);
    assert_int_equal(w->p->freed, 3);
    assert_int_equal(heap->bytes, before);
    assert_int_equal(shard->memory.heap_bufs, 0);
}

/* Two messages of 200 bytes, in slots 0 and 1. */
static void write_meta(const struct client_lease *lease, uint8_t *to)
{
    const struct amb_record record = {.len = 200};
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t offset = i * lease->slot;
        memcpy(to + i * sizeof(record), &record, sizeof(record));
        memcpy(to + 2 * sizeof(record) + i * sizeof(offset), &offset, sizeof(offset));
    }
}

/* Memory comes back while it is under way. Its copy is host memory of its user. */
static void test_a_copy_of_one_whose_records_lay_in_the_heap_is_its_users(void **state)
{
    struct world *w = *state;
    static struct used_up all;
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    struct shard_client *p = shard_client_create(&w->h, 0, NULL);
    struct client_lease lease;
    struct quota_user user;
    struct amb_link_mem *mem;
    void *dst, *cookie;
    quota_user_init(&user);
    quota_user_owns(&user, p->session);
    p->session->may_map = true;
    client_open_pub(p, 0, w->verified, false);
    client_subscribe(w->reader, 0, w->verified,
                     &(struct amb_subscription_options){.credit_msgs = 1});
    assert_int_equal(client_lease_open(p, 65536, 32, &lease), AMB_OK);
    assert_int_equal(client_lease_map(p, &lease), AMB_OK);
    harness_settle(&w->h);

    const struct amb_frame frame = {.type = AMB_FRAME_COMMIT,
                                    .seq = ++p->pubs[0].batches,
                                    .number = ++p->commits,
                                    .count = 2,
                                    .segment = lease.segment,
                                    .data_len = 2 * amb_payload_padded(200),
                                    .meta_len = 2 * (sizeof(struct amb_record) + 8)};
    use_up(pool, &all);
    assert_int_equal(amb_ingest_commit(p->session, &frame, &dst, &cookie, &mem), AMB_OK);
    assert_null(((struct amb_entry *)cookie)->purse);
    give_back(pool, &all);
    write_meta(&lease, dst);
    uint64_t before = p->session->purse->held;
    assert_int_equal(amb_ingest_body(p->session, cookie, AMB_OK), AMB_EAGAIN);
    assert_int_equal(amb_ingest_copy(p->session, cookie), AMB_OK);
    assert_true(p->session->purse->held >= before + frame.data_len);
    harness_settle(&w->h);
    client_drain(w->reader, 0);
    assert_int_equal(w->reader->subs[0].msgs, 2);
    assert_int_equal(p->session->purse->held, before);
    client_lease_close(p, &lease);
    client_lease_fini(&lease);
    client_close(p, false);
    harness_settle(&w->h);
    quota_user_fini(&user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_memory_its_records_lie_in_the_heap, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_copy_of_one_whose_records_lay_in_the_heap_is_its_users, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
