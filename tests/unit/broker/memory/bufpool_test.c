/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/bufpool.h"
#include "broker/memory/bufpool_check.h"

#include "broker/memory/sizeclass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

/* The calls of the hooks. */
struct world {
    struct amb_membudget budget;
    struct amb_bufpool pool;
    unsigned created, destroyed;
    enum amb_status create_status;
};

static enum amb_status on_create(void *arg, struct amb_segment *segment)
{
    struct world *w = arg;
    assert_non_null(segment->base);
    w->created++;
    return w->create_status;
}

static void on_destroy(void *arg, struct amb_segment *segment)
{
    struct world *w = arg;
    assert_non_null(segment->base);
    w->destroyed++;
}

static void world_init(struct world *w, uint64_t max, uint64_t segment_bytes)
{
    memset(w, 0, sizeof(*w));
    w->budget.max = max;
    struct amb_bufpool_options options = {.budget = &w->budget,
                                          .segment_bytes = segment_bytes,
                                          .on_create = on_create,
                                          .on_destroy = on_destroy,
                                          .arg = w};
    assert_int_equal(amb_bufpool_init(&w->pool, &options), AMB_OK);
}

static void world_fini(struct world *w)
{
    amb_bufpool_fini(&w->pool);
    assert_int_equal(w->budget.used, 0);
    if (w->create_status == AMB_OK) {
        assert_int_equal(w->created, w->destroyed);
    }
}

static struct amb_buf take(struct world *w, uint64_t len)
{
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc(&w->pool, len, &buf), AMB_OK);
    assert_true(buf.cap >= len);
    assert_int_equal(buf.cap, amb_bufpool_charge(&w->pool, len));
    assert_int_equal((uintptr_t)buf.data % (len >= AMB_PAGE_SIZE ? AMB_PAGE_SIZE : 64), 0);
    assert_true(buf.data >= buf.segment->base);
    assert_true(buf.data + buf.cap <= buf.segment->base + buf.segment->size);
    return buf;
}

static unsigned segments(const struct world *w)
{
    unsigned n = 0;
    AMB_LIST_FOR_EACH (node, &w->pool.segments) {
        n++;
    }
    return n;
}

static void test_size_classes_hold_what_they_say(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 100000; n++) {
        uint32_t cls = amb_sizeclass_of(n);
        uint64_t units = amb_sizeclass_units(cls);
        assert_true(units >= n);
        assert_true(units <= 4 || units * 4 <= n * 5 + 4);
        assert_int_equal(amb_sizeclass_of(units), cls);
        assert_true(cls == 0 || amb_sizeclass_units(cls - 1) < n);
        assert_true(amb_sizeclass_units(amb_sizeclass_within(n)) <= n);
    }
    assert_true(amb_sizeclass_of(AMB_EXTENT_PAGES_MAX) < AMB_RUN_CLASSES);
}

static void test_every_size_is_aligned_and_charged(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 64 * MIB, 16 * MIB);
    for (uint64_t len = 0; len < 5 * MIB; len = len < 20000 ? len + 61 : len + len / 7) {
        struct amb_buf buf = take(&w, len);
        assert_int_equal(amb_bufpool_used(&w.pool), buf.cap);
        memset(buf.data, 1, len);
        amb_bufpool_free(&w.pool, &buf);
        assert_int_equal(amb_bufpool_used(&w.pool), 0);
        amb_bufpool_check(&w.pool);
    }
    assert_int_equal(segments(&w), 1);
    world_fini(&w);
}

static void test_what_was_freed_last_is_used_next(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 64 * MIB, 16 * MIB);
    const uint64_t sizes[] = {200, 5000, 76 * KIB, 1 * MIB, 12 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct amb_buf a = take(&w, sizes[i]);
        amb_bufpool_free(&w.pool, &a);
        struct amb_buf b = take(&w, sizes[i]);
        assert_ptr_equal(a.data, b.data);
        amb_bufpool_free(&w.pool, &b);
    }
    world_fini(&w);
}

/* Batches come and go first in, first out: the pages they use must stay the same few. */
static void test_a_queue_of_batches_keeps_its_working_set(void **state)
{
    (void)state;
    enum {
        DEPTH = 32,
        ROUNDS = 2000
    };
    struct world w;
    world_init(&w, 64 * MIB, 64 * MIB);
    struct amb_buf queue[DEPTH];
    uint8_t *low = NULL, *high = NULL;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct amb_buf *slot = &queue[i % DEPTH];
        if (i >= DEPTH) {
            amb_bufpool_free(&w.pool, slot);
        }
        *slot = take(&w, 40 * KIB + (i * 7919) % (36 * KIB));
        low = low == NULL || slot->data < low ? slot->data : low;
        high = slot->data + slot->cap > high ? slot->data + slot->cap : high;
    }
    assert_true((uint64_t)(high - low) < 8 * MIB);
    for (unsigned i = 0; i < DEPTH; i++) {
        amb_bufpool_free(&w.pool, &queue[i]);
    }
    world_fini(&w);
}

static void test_neighbours_merge_to_serve_a_larger_run(void **state)
{
    (void)state;
    enum {
        N = 32
    };
    struct world w;
    world_init(&w, 4 * MIB, 4 * MIB);
    struct amb_buf bufs[N];
    for (int i = 0; i < N; i++) {
        bufs[i] = take(&w, 128 * KIB);
    }
    struct amb_buf more;
    assert_int_equal(amb_bufpool_alloc(&w.pool, 128 * KIB, &more), AMB_ENOMEM);
    for (int i = 0; i < N; i += 2) {
        amb_bufpool_free(&w.pool, &bufs[i]);
    }
    assert_int_equal(amb_bufpool_alloc(&w.pool, 256 * KIB, &more), AMB_ENOMEM);
    amb_bufpool_check(&w.pool);
    for (int i = 1; i < N; i += 2) {
        amb_bufpool_free(&w.pool, &bufs[i]);
    }
    more = take(&w, 2 * MIB);
    amb_bufpool_check(&w.pool);
    amb_bufpool_free(&w.pool, &more);
    world_fini(&w);
}

static void test_small_objects_give_their_slabs_back(void **state)
{
    (void)state;
    enum {
        N = 5000
    };
    struct world w;
    world_init(&w, 4 * MIB, 4 * MIB);
    struct amb_buf *bufs = calloc(N, sizeof(*bufs));
    for (int i = 0; i < N; i++) {
        bufs[i] = take(&w, 300);
    }
    amb_bufpool_check(&w.pool);
    for (int i = 0; i < N; i++) {
        amb_bufpool_free(&w.pool, &bufs[(i * 1237) % N]);
    }
    amb_bufpool_check(&w.pool);
    amb_bufpool_trim(&w.pool, 1);
    amb_bufpool_check(&w.pool);
    struct amb_buf a = take(&w, 2 * MIB), b = take(&w, 2 * MIB);
    amb_bufpool_free(&w.pool, &a);
    amb_bufpool_free(&w.pool, &b);
    free(bufs);
    world_fini(&w);
}

static void test_large_messages_get_a_segment_that_is_kept_once(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 64 * MIB, 4 * MIB);
    struct amb_buf a = take(&w, 2 * MIB + 1), b = take(&w, 5 * MIB);
    assert_int_equal(a.cap, 4 * MIB);
    assert_int_equal(b.cap, 6 * MIB);
    assert_ptr_equal(a.data, a.segment->base);
    assert_int_equal(w.created, 2);
    amb_bufpool_free(&w.pool, &a);
    amb_bufpool_free(&w.pool, &b);
    assert_int_equal(w.destroyed, 1);
    amb_bufpool_check(&w.pool);
    struct amb_buf c = take(&w, 5 * MIB);
    assert_int_equal(w.created, 2);
    amb_bufpool_free(&w.pool, &c);
    amb_bufpool_trim(&w.pool, 1);
    assert_int_equal(w.destroyed, 2);
    assert_int_equal(w.budget.used, 0);
    world_fini(&w);
}

static void test_the_budget_is_never_exceeded(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 10 * MIB, 8 * MIB);
    struct amb_buf a = take(&w, 3 * MIB), b = take(&w, 3 * MIB), buf;
    assert_int_equal(w.budget.used, 8 * MIB);
    assert_int_equal(amb_bufpool_alloc(&w.pool, 3 * MIB, &buf), AMB_ENOMEM);
    assert_int_equal(amb_bufpool_alloc(&w.pool, 5 * MIB, &buf), AMB_ENOMEM);
    assert_int_equal(amb_bufpool_alloc(&w.pool, UINT64_MAX, &buf), AMB_ENOMEM);
    /* The rest is less than a segment, and still of use. */
    struct amb_buf c = take(&w, 1 * MIB), d = take(&w, 1 * MIB), e = take(&w, 1 * MIB);
    assert_true(w.budget.used <= 10 * MIB);
    amb_bufpool_check(&w.pool);
    struct amb_buf all[] = {a, b, c, d, e};
    for (size_t i = 0; i < 5; i++) {
        amb_bufpool_free(&w.pool, &all[i]);
    }
    world_fini(&w);
}

static void test_a_cached_segment_yields_to_need(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 8 * MIB, 4 * MIB);
    struct amb_buf a = take(&w, 8 * MIB);
    amb_bufpool_free(&w.pool, &a);
    assert_int_equal(w.budget.used, 8 * MIB);
    struct amb_buf b = take(&w, 100);
    assert_int_equal(w.budget.used, 4 * MIB);
    amb_bufpool_free(&w.pool, &b);
    world_fini(&w);
}

static void test_trim_keeps_one_spare(void **state)
{
    (void)state;
    enum {
        N = 12
    };
    struct world w;
    world_init(&w, 64 * MIB, 2 * MIB);
    struct amb_buf bufs[N];
    for (int i = 0; i < N; i++) {
        bufs[i] = take(&w, 512 * KIB);
    }
    assert_int_equal(segments(&w), 3);
    amb_bufpool_trim(&w.pool, 1);
    assert_int_equal(segments(&w), 3);
    for (int i = 0; i < N; i++) {
        amb_bufpool_free(&w.pool, &bufs[i]);
    }
    amb_bufpool_trim(&w.pool, 1);
    assert_int_equal(segments(&w), 1);
    amb_bufpool_check(&w.pool);
    world_fini(&w);
}

static void test_a_hook_that_refuses_makes_the_allocation_fail(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 64 * MIB, 2 * MIB);
    w.create_status = AMB_ELIMIT;
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc(&w.pool, 100, &buf), AMB_ELIMIT);
    assert_int_equal(amb_bufpool_alloc(&w.pool, 10 * MIB, &buf), AMB_ELIMIT);
    assert_int_equal(w.budget.used, 0);
    amb_bufpool_check(&w.pool);
    world_fini(&w);
}

/* Pools of trust groups: there may be many, and most of them have little. */
static void test_a_pool_may_begin_small_and_doubles(void **state)
{
    (void)state;
    struct world w;
    memset(&w, 0, sizeof(w));
    w.budget.max = 256 * MIB;
    const struct amb_bufpool_options options = {
        .budget = &w.budget, .segment_bytes = 16 * MIB, .first_bytes = 2 * MIB};
    assert_int_equal(amb_bufpool_init(&w.pool, &options), AMB_OK);
    static const uint64_t sizes[] = {2, 4, 8, 16, 32, 48};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t bytes = w.pool.segment_bytes;
        while (w.pool.segment_bytes == bytes) {
            (void)take(&w, MIB);
        }
        assert_int_equal(w.pool.segment_bytes, sizes[i] * MIB);
    }
    amb_bufpool_check(&w.pool);
    amb_bufpool_fini(&w.pool);
    /* A larger one has as much as it needs. A window in one piece finds room at once. */
    assert_int_equal(amb_bufpool_init(&w.pool, &options), AMB_OK);
    (void)take(&w, 5 * MIB);
    assert_int_equal(w.pool.segment_bytes, 6 * MIB);
    amb_bufpool_fini(&w.pool);
    assert_int_equal(amb_bufpool_init(&w.pool, &options), AMB_OK);
    amb_bufpool_set_window(&w.pool, 2 * MIB);
    assert_int_equal(amb_bufpool_more_bytes(&w.pool), 4 * MIB);
    assert_int_equal(amb_bufpool_more(&w.pool), AMB_OK);
    assert_int_equal(w.pool.segment_bytes, 4 * MIB);
    assert_true(amb_bufpool_reserve(&w.pool, 64 * 1024, true));
    amb_bufpool_fini(&w.pool);
    assert_int_equal(w.budget.used, 0);
}

static void test_pools_of_one_budget_give_different_ids(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 64 * MIB, 2 * MIB);
    struct amb_bufpool other;
    struct amb_bufpool_options options = {.budget = &w.budget, .segment_bytes = 2 * MIB};
    assert_int_equal(amb_bufpool_init(&other, &options), AMB_OK);
    assert_int_equal(amb_bufpool_prepare(&other), AMB_OK);
    struct amb_buf a = take(&w, 1), b;
    assert_int_equal(amb_bufpool_alloc(&other, 1, &b), AMB_OK);
    assert_int_not_equal(a.segment->id, 0);
    assert_int_not_equal(a.segment->id, b.segment->id);
    amb_bufpool_fini(&other);
    world_fini(&w);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    struct amb_membudget budget = {.max = MIB};
    struct amb_bufpool pool;
    struct amb_bufpool_options options = {.budget = &budget, .segment_bytes = MIB};
    assert_int_equal(amb_bufpool_init(&pool, &options), AMB_EINVAL);
    options.segment_bytes = 0;
    assert_int_equal(amb_bufpool_init(&pool, &options), AMB_EINVAL);
    struct amb_bufpool zero = {0};
    amb_bufpool_fini(&zero);
}

/* ---- random work against a model: what is out never overlaps, and keeps its bytes ---- */

static uint64_t rng = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static uint64_t random_len(void)
{
    uint64_t r = next_random();
    switch (r % 16) {
    case 0:
        return r % (3 * MIB);
    case 1:
    case 2:
    case 3:
        return r % (100 * KIB);
    default:
        return r % (16 * KIB);
    }
}

struct live {
    struct amb_buf buf;
    uint64_t len;
    uint8_t tag;
};

static void stamp(struct live *l, uint8_t tag)
{
    l->tag = tag;
    if (l->len > 0) {
        l->buf.data[0] = l->buf.data[l->len / 2] = l->buf.data[l->len - 1] = tag;
    }
}

static void verify(const struct live *l)
{
    if (l->len > 0) {
        assert_int_equal(l->buf.data[0], l->tag);
        assert_int_equal(l->buf.data[l->len / 2], l->tag);
        assert_int_equal(l->buf.data[l->len - 1], l->tag);
    }
}

static void test_random_work_keeps_every_invariant(void **state)
{
    (void)state;
    enum {
        SLOTS = 256,
        ROUNDS = 100000
    };
    struct world w;
    world_init(&w, 24 * MIB, 4 * MIB);
    static struct live live[SLOTS];
    memset(live, 0, sizeof(live));
    unsigned refused = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct live *l = &live[next_random() % SLOTS];
        if (l->buf.data != NULL) {
            verify(l);
            amb_bufpool_free(&w.pool, &l->buf);
            l->buf.data = NULL;
        } else {
            l->len = random_len();
            enum amb_status status = amb_bufpool_alloc(&w.pool, l->len, &l->buf);
            if (status == AMB_OK) {
                stamp(l, (uint8_t)i);
            } else {
                assert_int_equal(status, AMB_ENOMEM);
                l->buf.data = NULL;
                refused++;
            }
        }
        if (i % 4096 == 0) {
            amb_bufpool_trim(&w.pool, 1);
        }
        /* All of it after each step would take minutes under the sanitizers. */
        if (i < 2000 || i % 64 == 0) {
            amb_bufpool_check(&w.pool);
        }
    }
    assert_true(refused < ROUNDS / 2);
    for (unsigned i = 0; i < SLOTS; i++) {
        if (live[i].buf.data != NULL) {
            verify(&live[i]);
            amb_bufpool_free(&w.pool, &live[i].buf);
        }
    }
    assert_int_equal(amb_bufpool_used(&w.pool), 0);
    amb_bufpool_check(&w.pool);
    amb_bufpool_trim(&w.pool, 1);
    assert_int_equal(segments(&w), 1);
    world_fini(&w);
}

/* A message of few bytes, for which no slab has room, does not take a whole one from those whose
 * bytes are reserved. An object that is too large does as well. */
static void test_a_reserved_run_is_not_spent_on_a_slab(void **state)
{
    (void)state;
    struct world w;
    struct amb_buf others[64], kept, small, run;
    unsigned count = 0;
    world_init(&w, 2 * MIB, 2 * MIB);
    kept = take(&w, 4 * KIB); /* A slab that has room. */
    assert_true(amb_bufpool_reserve(&w.pool, 64 * KIB, false));
    for (uint64_t len = MIB; len >= 16 * KIB; len /= 2) { /* As much as others may have. */
        while (count < 64 && amb_bufpool_alloc(&w.pool, len, &others[count]) == AMB_OK) {
            count++;
        }
    }
    amb_bufpool_unreserve(&w.pool, 64, 0);
    assert_int_equal(amb_bufpool_alloc_granted(&w.pool, 64, &small), AMB_OK);
    assert_int_equal(small.cap, 4 * KIB);
    amb_bufpool_unreserve(&w.pool, 63 * KIB, 0);
    assert_int_equal(amb_bufpool_alloc_granted(&w.pool, 63 * KIB, &run), AMB_OK);
    amb_bufpool_unreserve(&w.pool, KIB - 64, 0);
    amb_bufpool_free(&w.pool, &run);
    amb_bufpool_free(&w.pool, &small);
    while (count > 0) {
        amb_bufpool_free(&w.pool, &others[--count]);
    }
    small = take(&w, 64); /* Where there is room it has its own. */
    assert_int_equal(small.cap, 64);
    amb_bufpool_free(&w.pool, &small);
    amb_bufpool_free(&w.pool, &kept);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_classes_hold_what_they_say),
        cmocka_unit_test(test_every_size_is_aligned_and_charged),
        cmocka_unit_test(test_what_was_freed_last_is_used_next),
        cmocka_unit_test(test_a_queue_of_batches_keeps_its_working_set),
        cmocka_unit_test(test_neighbours_merge_to_serve_a_larger_run),
        cmocka_unit_test(test_small_objects_give_their_slabs_back),
        cmocka_unit_test(test_large_messages_get_a_segment_that_is_kept_once),
        cmocka_unit_test(test_the_budget_is_never_exceeded),
        cmocka_unit_test(test_a_cached_segment_yields_to_need),
        cmocka_unit_test(test_trim_keeps_one_spare),
        cmocka_unit_test(test_a_hook_that_refuses_makes_the_allocation_fail),
        cmocka_unit_test(test_a_pool_may_begin_small_and_doubles),
        cmocka_unit_test(test_pools_of_one_budget_give_different_ids),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_random_work_keeps_every_invariant),
        cmocka_unit_test(test_a_reserved_run_is_not_spent_on_a_slab),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
