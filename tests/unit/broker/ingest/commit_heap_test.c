/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leased batches where leases and messages have all memory there is.
 */
#include "broker/ingest/commit.h"
#include "broker/ingest/publisher.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *p, *reader;
    struct client_lease lease;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1,
                 "memory = { host = { size = \"16M\"; segment = \"2M\"; "
                 "grow_on_demand = true; }; };\n");
    w->topic = harness_topic(&w->h, "t", 0);
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

/* Its payloads have their place, so it is for a few bytes only that it would be refused. */
static void test_without_memory_its_records_lie_in_the_heap(void **state)
{
    struct world *w = *state;
    struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    struct amb_heap_account *heap = &w->p->session->heap;
    static struct amb_buf bufs[8192];
    unsigned count = 0;
    client_subscribe(w->reader, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 1});
    harness_settle(&w->h);
    for (uint64_t len = 65536; len >= 64; len /= 2) {
        while (count < 8192 && amb_bufpool_alloc_granted(pool, len, &bufs[count]) == AMB_OK) {
            count++;
        }
    }
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
    while (count > 0) {
        amb_bufpool_free(pool, &bufs[--count]);
    }
    client_drain(w->reader, 0);
    assert_int_equal(w->reader->subs[0].msgs, 2);
    assert_int_equal(w->p->freed, 3);
    assert_int_equal(heap->bytes, before);
    assert_int_equal(shard->memory.heap_bufs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_memory_its_records_lie_in_the_heap, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
