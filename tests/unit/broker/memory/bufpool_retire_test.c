/* SPDX-License-Identifier: Apache-2.0 */
/* A pool whose segments take nothing new: buffers there stay until they are freed. */
#include "broker/memory/bufpool_retire.h"

#include "broker/memory/bufpool_check.h"
#include "broker/memory/limbo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define BUFS 300u

static const uint64_t sizes[] = {1, 64, 700, 5000, 9000, 20000, 100000, 600000, 3 * MIB};

struct world {
    struct amb_membudget budget;
    struct amb_limbo limbo;
    struct amb_bufpool pool, retired;
    struct amb_buf bufs[BUFS];
};

static void begin(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->budget.max = 512 * MIB;
    amb_limbo_init(&w->limbo, NULL);
    w->budget.limbo = &w->limbo;
    const struct amb_bufpool_options options = {
        .budget = &w->budget, .segment_bytes = 4 * MIB, .group = &amb_trust_group_main};
    assert_int_equal(amb_bufpool_init(&w->pool, &options), AMB_OK);
}

static void fill(struct world *w, uint8_t mark)
{
    for (unsigned i = 0; i < BUFS; i++) {
        uint64_t len = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
        len = i > 60 && len == 3 * MIB ? 40 : len;
        assert_int_equal(amb_bufpool_alloc(&w->pool, len, &w->bufs[i]), AMB_OK);
        memset(w->bufs[i].data, mark, len);
    }
}

static void free_some(struct world *w, unsigned first)
{
    for (unsigned i = first; i < BUFS; i += 2) {
        assert_int_equal(w->bufs[i].data[0], 7);
        amb_buf_free(&w->bufs[i]);
    }
}

static void check_both(const struct world *w)
{
    amb_bufpool_check(&w->pool);
    amb_bufpool_check(&w->retired);
}

static void what_lies_there_stays_and_nothing_new_comes(void **state)
{
    (void)state;
    static struct world w;
    begin(&w);
    fill(&w, 7);
    free_some(&w, 1);
    uint64_t used = w.pool.used, bytes = w.pool.segment_bytes;
    assert_true(amb_bufpool_reserve(&w.pool, 60000, false));
    amb_bufpool_retire(&w.pool, &w.retired);
    check_both(&w);
    assert_int_equal(w.pool.used, 0);
    assert_int_equal(w.pool.segment_bytes, 0);
    assert_int_equal(w.pool.reserved, 60000);
    assert_int_equal(w.retired.used, used);
    assert_int_equal(w.retired.segment_bytes, bytes);
    struct amb_buf fresh[32];
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(amb_bufpool_alloc(&w.pool, sizes[i % 8], &fresh[i]), AMB_OK);
        assert_ptr_equal(fresh[i].segment->pool, &w.pool);
        assert_ptr_equal(fresh[i].segment->group, &amb_trust_group_main);
        memset(fresh[i].data, 9, sizes[i % 8]);
    }
    check_both(&w);
    free_some(&w, 0);
    check_both(&w);
    amb_bufpool_trim(&w.retired, 0);
    assert_int_equal(w.retired.segment_bytes, 0);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(fresh[i].data[0], 9);
        amb_buf_free(&fresh[i]);
    }
    amb_bufpool_unreserve(&w.pool, 60000, 0);
    check_both(&w);
    amb_bufpool_fini(&w.retired);
    amb_bufpool_fini(&w.pool);
    assert_int_equal(w.budget.used, 0);
    amb_limbo_fini(&w.limbo, &w.budget);
}

static void an_empty_pool_and_one_again_are_retired(void **state)
{
    (void)state;
    static struct world w;
    begin(&w);
    amb_bufpool_retire(&w.pool, &w.retired);
    check_both(&w);
    amb_bufpool_fini(&w.retired);
    for (unsigned n = 0; n < 3; n++) {
        fill(&w, 7);
        amb_bufpool_retire(&w.pool, &w.retired);
        free_some(&w, 0);
        free_some(&w, 1);
        check_both(&w);
        amb_bufpool_fini(&w.retired);
    }
    amb_bufpool_fini(&w.pool);
    assert_int_equal(w.budget.used, 0);
    amb_limbo_fini(&w.limbo, &w.budget);
}

/* A segment that was dropped before, and is still mapped: no pool has it again after a fence. */
static void limbo_gives_none_back_from_before_a_fence(void **state)
{
    (void)state;
    static struct world w;
    begin(&w);
    fill(&w, 7);
    free_some(&w, 0);
    free_some(&w, 1);
    struct amb_segment *segment = AMB_CONTAINER_OF(w.pool.segments.next, struct amb_segment, node);
    int fd = amb_segment_ask_use(segment) == AMB_SEGMENT_UNUSED ? dup(segment->fd_ro) : -1;
    assert_true(fd >= 0);
    uint64_t size = segment->size;
    amb_bufpool_trim(&w.pool, 0);
    assert_int_equal(w.limbo.count, 1);
    amb_membudget_fence(&w.budget);
    assert_null(amb_limbo_reuse(&w.budget, &amb_trust_group_main, size, size));
    (void)close(fd);
    assert_int_equal(amb_limbo_look(&w.budget, 0), -1);
    amb_bufpool_fini(&w.pool);
    assert_int_equal(w.budget.used, 0);
    amb_limbo_fini(&w.limbo, &w.budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_there_stays_and_nothing_new_comes),
        cmocka_unit_test(an_empty_pool_and_one_again_are_retired),
        cmocka_unit_test(limbo_gives_none_back_from_before_a_fence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
