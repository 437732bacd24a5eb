/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard's pools, one for each trust group: made at first use, never mixed, and given back for
 * each other where memory is short.
 */
#include "broker/shard/shard_memory.h"

#include "broker/base/trust_group.h"
#include "broker/delivery/reader/deliver.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/segment_lease.h"
#include "broker/worker/orders.h"
#include "broker/worker/orders_session.h"
#include "tests/support/shard/shard_lease.h"
#include "tests/support/shard/shard_pair.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define SLOT UINT64_C(65536)

static const struct amb_trust_group cams = {.id = 2, .tenant = AMB_TENANT_OPERATORS, .index = 1};
static const struct client_options maps = {.may_map = true, .answers_offers = true};

static bool has_no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return has_no_memory ? NULL : __real_malloc(size);
}

/* The publisher's topic is of that group; on two shards, or one. */
static struct shard_pair *begin(unsigned shards)
{
    struct shard_pair *w = shard_pair_begin(shards, &maps);
    w->p->group = &cams;
    client_open_pub(w->p, 0, w->topic, true);
    client_subscribe(w->s, 0, w->topic, NULL);
    harness_settle(&w->h);
    return w;
}

static int setup(void **state)
{
    *state = begin(2);
    return 0;
}

static int setup_one(void **state)
{
    *state = begin(1);
    return 0;
}

static struct amb_shard *shard_of(struct shard_pair *w)
{
    return &w->h.shards[0];
}

static void a_group_has_a_pool_where_it_is_published(void **state)
{
    struct shard_pair *w = *state;
    const struct amb_shard_memory *memory = &shard_of(w)->memory;
    const struct amb_bufpool *pool = memory->by_group[cams.id];
    assert_non_null(pool);
    assert_int_equal(memory->pool_count, 3);
    assert_ptr_equal(amb_shard_pool(shard_of(w), &cams), pool);
    assert_ptr_equal(memory->by_group[amb_trust_group_private.id], &memory->private_pool);
    assert_ptr_equal(memory->by_group[amb_trust_group_main.id], &memory->bufpool);
    assert_null(w->h.shards[1].memory.by_group[cams.id]);
    shard_pair_publish(w, 100 * KIB);
    shard_pair_publish(w, 100);
    assert_int_equal(shard_pair_frame_type(w, 2), AMB_FRAME_MAP);
    assert_int_equal(amb_bufpool_used(&memory->bufpool), 0);
    assert_true(amb_bufpool_used(pool) > 0);
    assert_ptr_equal(AMB_CONTAINER_OF(pool->segments.next, struct amb_segment, node)->group, &cams);
    client_drain(w->s, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void without_a_right_to_the_group_it_is_copied(void **state)
{
    struct shard_pair *w = *state;
    w->s->session->maps = ~(UINT64_C(1) << cams.index);
    shard_pair_publish(w, 100 * KIB);
    shard_pair_publish(w, 100);
    assert_int_equal(shard_pair_frame_type(w, 1), AMB_FRAME_DELIVER);
    assert_int_equal(shard_pair_frame_type(w, 2), AMB_FRAME_DELIVER);
    assert_int_equal(w->s->segment_count, 0);
    assert_int_equal(w->s->session->paths.out.why, AMB_PATH_GROUP);
}

/* Its payloads lie where readers of another group may read. */
static void a_lease_of_another_group_is_copied(void **state)
{
    struct shard_pair *w = *state;
    const struct amb_bufpool *pool = amb_shard_pool(shard_of(w), &cams);
    w->p->session->may_map = true;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, SLOT, 8, &lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    shard_pair_publish(w, 100); /* has the reader map the pool's segment */
    client_drain(w->s, 0);
    client_commit(w->p, 0, &lease, 3, 1, 40000);
    harness_settle(&w->h);
    assert_int_equal(w->p->freed, 1);
    const struct client_delivery *got = client_delivery(w->s, 0, 2);
    assert_int_equal(got->frame.type, AMB_FRAME_MAP);
    assert_int_not_equal(got->frame.segment, lease.segment);
    assert_true(amb_bufpool_used(pool) > 0);
    memset(lease.base, 0xff, (size_t)lease.size); /* the reader's stays what it was */
    client_check_held(w->s, 0);
    client_drain(w->s, 0);
    struct amb_segment_lease *own = amb_segment_lease_find(&w->p->session->book, lease.segment);
    amb_segment_set_group(own->segment, &cams); /* ... and of the same group it is read in place. */
    client_commit(w->p, 0, &lease, 4, 1, 40000);
    harness_settle(&w->h);
    client_drain(w->s, 0);
    client_commit(w->p, 0, &lease, 5, 1, 40000);
    harness_settle(&w->h);
    assert_int_equal(client_delivery(w->s, 0, 4)->frame.segment, lease.segment);
    client_drain(w->s, 0);
    client_lease_fini(&lease);
}

/* All memory is one group's, and free: another one has it. */
static void free_segments_of_other_groups_go_first(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = shard_of(w);
    struct amb_membudget *budget = shard->memory.bufpool.options.budget;
    struct amb_bufpool *pool = amb_shard_pool(shard, &cams);
    struct amb_buf bufs[64];
    unsigned count = 0;
    while (count < 64 &&
           amb_bufpool_alloc(&shard->memory.bufpool, MIB / 2, &bufs[count]) == AMB_OK) {
        count++;
    }
    while (count > 0) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[--count]);
    }
    assert_true(budget->used > budget->max - 2 * MIB);
    uint64_t before = pool->segment_bytes;
    for (unsigned i = 0; i < 8; i++) {
        shard_pair_publish(w, 500 * KIB);
    }
    assert_true(pool->segment_bytes > before);
    assert_int_equal(w->s->subs[0].last, 8);
    assert_int_equal(w->p->ended, 0);
    client_drain(w->s, 0);
}

/* A process that has lost its rights keeps what it has mapped: it sees nothing new there. */
static void segments_of_lost_rights_take_nothing_new(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = shard_of(w);
    const struct amb_bufpool *pool = amb_shard_pool(shard, &cams);
    shard_pair_publish(w, 100 * KIB);
    shard_pair_publish(w, 100);
    assert_int_equal(shard_pair_frame_type(w, 2), AMB_FRAME_MAP);
    uint64_t former = client_delivery(w->s, 0, 2)->frame.segment;
    amb_shard_memory_retire(shard, AMB_TENANT_OPERATORS + 1, UINT64_MAX); /* others' */
    amb_shard_memory_retire(shard, AMB_TENANT_OPERATORS, ~(UINT64_C(1) << cams.index));
    assert_true(pool->segment_bytes > 0);
    amb_shard_memory_retire(shard, AMB_TENANT_OPERATORS, UINT64_C(1) << cams.index);
    assert_int_equal(pool->segment_bytes, 0);
    assert_true(amb_shard_memory_retired(shard) > 0);
    for (unsigned i = 3; i < 9; i++) {
        shard_pair_publish(w, i % 2 == 0 ? 100 : 300 * KIB);
        assert_true(shard_pair_frame_type(w, i) != AMB_FRAME_MAP ||
                    client_delivery(w->s, 0, i)->frame.segment != former);
    }
    client_check_held(w->s, 0); /* Messages that were there stay as long as they are read. */
    assert_true(amb_shard_memory_tick(shard) != INT64_MAX);
    assert_true(amb_shard_memory_retired(shard) > 0);
    client_drain(w->s, 0);
    shard->now_ns += INT64_C(1000000000);
    (void)amb_shard_memory_tick(shard);
    assert_int_equal(amb_shard_memory_retired(shard), 0);
    assert_int_equal(amb_shard_memory_tick(shard), INT64_MAX);
    assert_int_equal(w->p->ended + w->s->ended, 0);
}

/* Where the heap has nothing left, the pool stays as it is, and is asked again. */
static void without_memory_a_pool_is_retired_later(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = shard_of(w);
    const struct amb_bufpool *pool = amb_shard_pool(shard, &cams);
    const uint64_t bit = UINT64_C(1) << cams.index;
    shard_pair_publish(w, 100 * KIB);
    struct amb_order_groups_retire *order = amb_order_new(&amb_order_groups_retire, NULL, NULL);
    order->tenant = AMB_TENANT_OPERATORS;
    order->maps = bit;
    has_no_memory = true;
    assert_true(amb_shard_memory_retire(shard, AMB_TENANT_OPERATORS, UINT64_MAX) & bit);
    amb_order_post(shard, &order->order);
    (void)amb_inbox_run(&shard->inbox);
    (void)amb_inbox_run(&shard->inbox);
    has_no_memory = false;
    assert_true(pool->segment_bytes > 0);
    assert_int_equal(amb_shard_memory_retired(shard), 0);
    harness_settle(&w->h);
    assert_int_equal(pool->segment_bytes, 0);
    assert_true(amb_shard_memory_retired(shard) > 0);
    client_drain(w->s, 0);
}

/* Workers deliver from each other's segments, and ask whose those are. */
struct asker {
    struct amb_session *session;
    struct amb_segment *segment;
    atomic_bool is_over;
    uint64_t asked;
};

static void *ask_why(void *arg)
{
    struct asker *asker = arg;
    while (!atomic_load(&asker->is_over) || asker->asked < 1000) {
        enum amb_path_why why = amb_deliver_why_refused(asker->session, asker->segment);
        asker->asked += why == AMB_PATH_PRIVATE || why == AMB_PATH_REFUSED;
    }
    return NULL;
}

/* For the thread sanitizer. */
static void a_group_changes_while_another_worker_asks_for_it(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = shard_of(w);
    shard_pair_publish(w, 100 * KIB);
    struct amb_bufpool *pool = amb_shard_pool(shard, &cams);
    struct asker asker = {.session = w->s->session,
                          .segment =
                              AMB_CONTAINER_OF(pool->segments.next, struct amb_segment, node)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_why, &asker), 0);
    assert_int_equal(amb_shard_memory_retire(shard, AMB_TENANT_OPERATORS, UINT64_MAX), 0);
    atomic_store(&asker.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(amb_deliver_why_refused(w->s->session, asker.segment), AMB_PATH_PRIVATE);
    client_drain(w->s, 0);
}

static void an_idle_shard_gives_all_pools_segments_back(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = shard_of(w);
    struct amb_bufpool *pool = amb_shard_pool(shard, &cams);
    struct amb_buf bufs[6];
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(amb_bufpool_alloc(pool, MIB, &bufs[i]), AMB_OK);
    }
    for (unsigned i = 0; i < 6; i++) {
        amb_bufpool_free(pool, &bufs[i]);
    }
    uint64_t before = pool->segment_bytes;
    amb_shard_memory_rest(shard);
    assert_true(pool->segment_bytes < before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
#define T_ONE(name) cmocka_unit_test_setup_teardown(name, setup_one, shard_pair_teardown)
        T(a_group_has_a_pool_where_it_is_published),
        T(without_a_right_to_the_group_it_is_copied),
        T_ONE(a_lease_of_another_group_is_copied),
        T_ONE(free_segments_of_other_groups_go_first),
        T(segments_of_lost_rights_take_nothing_new),
        T_ONE(segments_of_lost_rights_take_nothing_new),
        T_ONE(without_memory_a_pool_is_retired_later),
        T(a_group_changes_while_another_worker_asks_for_it),
        T(an_idle_shard_gives_all_pools_segments_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
