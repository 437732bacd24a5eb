/* SPDX-License-Identifier: Apache-2.0 */
/* Segments that were dropped and are still mapped somewhere: charged, used again, and given back in
 * the end.
 */
#include "broker/memory/limbo.h"

#include "broker/base/party.h"
#include "broker/base/trust_group.h"
#include "broker/memory/bufpool.h"
#include "broker/memory/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define SIZE (4 * MIB)

struct world {
    struct amb_membudget budget;
    struct amb_limbo limbo;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->budget.max = 64 * MIB;
    amb_limbo_init(&w->limbo, NULL);
    w->budget.limbo = &w->limbo;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    amb_limbo_fini(&w->limbo, &w->budget);
    assert_int_equal(w->budget.used, 0);
    free(w);
    return 0;
}

static struct amb_segment *make(struct world *w, uint64_t size)
{
    struct amb_segment *segment = NULL;
    assert_true(amb_membudget_take(&w->budget, size));
    assert_int_equal(amb_segment_create(amb_membudget_next_id(&w->budget), size, &segment), AMB_OK);
    segment->group = &amb_trust_group_main;
    return segment;
}

/* As a client does with the descriptor that it was sent. */
static void *map_as_reader(const struct amb_segment *segment)
{
    int fd = dup(segment->fd_ro);
    void *base = mmap(NULL, segment->size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(base != MAP_FAILED);
    (void)close(fd);
    return base;
}

static void test_what_nobody_maps_is_gone_at_once(void **state)
{
    struct world *w = *state;
    amb_limbo_drop(&w->budget, make(w, SIZE));
    assert_int_equal(w->budget.used, 0);
    assert_int_equal(w->limbo.count, 0);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
}

static void test_what_is_mapped_stays_charged_until_it_is_not(void **state)
{
    struct world *w = *state;
    struct amb_segment *segment = make(w, SIZE);
    void *kept = map_as_reader(segment);
    amb_limbo_drop(&w->budget, segment);
    assert_int_equal(w->budget.used, SIZE);
    assert_int_equal(w->limbo.bytes, SIZE);
    assert_true(amb_limbo_look(&w->budget, amb_clock_monotonic_ns()) > 0);
    assert_int_equal(w->budget.used, SIZE);
    assert_int_equal(munmap(kept, SIZE), 0);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
    assert_int_equal(w->budget.used, 0);
    assert_int_equal(w->limbo.bytes, 0);
}

static void test_a_descriptor_that_was_kept_counts_too(void **state)
{
    struct world *w = *state;
    struct amb_segment *segment = make(w, SIZE);
    int kept = dup(segment->fd_ro);
    amb_limbo_drop(&w->budget, segment);
    assert_int_equal(w->budget.used, SIZE);
    (void)close(kept);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
    assert_int_equal(w->budget.used, 0);
}

/* A child that inherits the mapping, and outlives the process that was the client. */
static void test_a_child_that_inherits_it_counts_too(void **state)
{
    struct world *w = *state;
    struct amb_segment *segment = make(w, SIZE);
    void *kept = map_as_reader(segment);
    int stop[2];
    assert_int_equal(pipe(stop), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        (void)close(stop[1]);
        (void)!read(stop[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(munmap(kept, SIZE), 0);
    amb_limbo_drop(&w->budget, segment);
    assert_int_equal(w->budget.used, SIZE);
    (void)close(stop[0]);
    (void)close(stop[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
    assert_int_equal(w->budget.used, 0);
}

static void test_a_pool_uses_it_again_where_no_other_memory_is(void **state)
{
    struct world *w = *state;
    w->budget.max = SIZE;
    struct amb_bufpool_options options = {
        .budget = &w->budget, .segment_bytes = SIZE, .group = &amb_trust_group_main};
    struct amb_bufpool pool;
    assert_int_equal(amb_bufpool_init(&pool, &options), AMB_OK);
    struct amb_buf buf;
    assert_int_equal(amb_bufpool_alloc(&pool, MIB, &buf), AMB_OK);
    uint64_t id = buf.segment->id;
    void *kept = map_as_reader(buf.segment);
    amb_bufpool_free(&pool, &buf);
    amb_bufpool_trim(&pool, 0);
    assert_int_equal(w->budget.used, SIZE);
    for (unsigned i = 0; i < 100; i++) { /* A liar, again and again: nothing escapes. */
        assert_int_equal(amb_bufpool_alloc(&pool, MIB, &buf), AMB_OK);
        assert_int_not_equal(buf.segment->id, id);
        assert_int_equal(w->budget.used, SIZE);
        amb_bufpool_free(&pool, &buf);
        amb_bufpool_trim(&pool, 0);
    }
    assert_int_equal(w->limbo.reused, 100);
    assert_int_equal(munmap(kept, SIZE), 0);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
    assert_int_equal(w->budget.used, 0);
    amb_bufpool_fini(&pool);
}

static void test_a_lease_is_nobody_elses_and_its_party_pays(void **state)
{
    struct world *w = *state;
    struct amb_parties parties;
    struct amb_party *party;
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 7, "1", &party), AMB_OK);
    struct amb_segment *segment = NULL;
    assert_true(amb_membudget_take_lease(&w->budget, SIZE));
    assert_int_equal(amb_segment_create_leased(1, SIZE, &segment), AMB_OK);
    segment->is_leased = true;
    segment->party = amb_party_ref(party);
    amb_party_lease(party, SIZE);
    amb_party_kept(party, SIZE); /* As its book's end does. */
    int fd;
    assert_int_equal(amb_segment_open_writer(segment, &fd), AMB_OK);
    void *kept = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(kept != MAP_FAILED);
    (void)close(fd);
    assert_int_equal(amb_segment_seal(segment), AMB_OK);
    amb_limbo_drop(&w->budget, segment);
    assert_int_equal(w->budget.leased, SIZE);
    assert_int_equal(w->budget.leases, 1);
    assert_int_equal(party->kept, SIZE);
    assert_int_equal(party->user->leased, SIZE);
    assert_null(amb_limbo_reuse(&w->budget, NULL, SIZE, SIZE));
    assert_int_equal(munmap(kept, SIZE), 0);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
    assert_int_equal(w->budget.leased, 0);
    assert_int_equal(party->kept, 0);
    assert_int_equal(party->user->leased, 0);
    amb_party_unref(&party);
    amb_parties_fini(&parties);
}

/* There could be no descriptor to ask with when it was dropped, so it was private too. */
static void test_a_segment_stays_in_its_group(void **state)
{
    struct world *w = *state;
    struct amb_segment *segment = NULL;
    assert_true(amb_membudget_take(&w->budget, SIZE));
    assert_int_equal(amb_segment_create(1, SIZE, &segment), AMB_OK);
    segment->group = &amb_trust_group_private;
    void *kept = map_as_reader(segment);
    amb_limbo_drop(&w->budget, segment);
    assert_int_equal(w->limbo.count, 1);
    assert_null(amb_limbo_reuse(&w->budget, &amb_trust_group_main, SIZE, SIZE));
    segment->group = &amb_trust_group_main;
    assert_ptr_equal(amb_limbo_reuse(&w->budget, &amb_trust_group_main, SIZE, SIZE), segment);
    amb_limbo_drop(&w->budget, segment);
    assert_int_equal(munmap(kept, SIZE), 0);
    assert_int_equal(amb_limbo_look(&w->budget, 0), -1);
    assert_int_equal(w->budget.used, 0);
}

/* One client keeps a crowd of segments; another one unmaps its own. */
static void test_a_crowd_that_stays_holds_up_nobody(void **state)
{
    enum {
        CROWD = 300,
        SMALL = 4096
    };
    struct world *w = *state;
    static struct amb_segment *crowd[CROWD];
    static void *kept[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        crowd[i] = make(w, SMALL);
        crowd[i]->is_leased = true;
        assert_true(amb_membudget_take_lease(&w->budget, SMALL));
        amb_membudget_give(&w->budget, SMALL);
        kept[i] = map_as_reader(crowd[i]);
        amb_limbo_drop(&w->budget, crowd[i]);
    }
    int64_t late_ns = amb_clock_monotonic_ns() + 2 * AMB_LIMBO_FRESH_NS;
    for (unsigned i = 0; i < CROWD; i++) {
        (void)amb_limbo_look(&w->budget, late_ns); /* All of them have become late. */
    }
    struct amb_segment *fresh = make(w, SMALL);
    fresh->is_leased = true;
    assert_true(amb_membudget_take_lease(&w->budget, SMALL));
    amb_membudget_give(&w->budget, SMALL);
    void *its = map_as_reader(fresh);
    amb_limbo_drop(&w->budget, fresh);
    assert_int_equal(w->limbo.count, CROWD + 1);
    assert_int_equal(munmap(its, SMALL), 0);
    (void)amb_limbo_look(&w->budget, late_ns); /* The first look finds it. */
    assert_int_equal(w->limbo.count, CROWD);
    /* And each of the crowd is looked at within a second, or a bit more. */
    int64_t spent_ms = 0;
    assert_int_equal(munmap(kept[CROWD / 2], SMALL), 0);
    while (w->limbo.count == CROWD) {
        spent_ms += amb_limbo_look(&w->budget, late_ns);
        assert_true(spent_ms <= 1500);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        if (i != CROWD / 2) {
            assert_int_equal(munmap(kept[i], SMALL), 0);
        }
    }
    while (amb_limbo_look(&w->budget, late_ns) > 0) {
    }
    assert_int_equal(w->budget.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_nobody_maps_is_gone_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_mapped_stays_charged_until_it_is_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_descriptor_that_was_kept_counts_too, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_child_that_inherits_it_counts_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_pool_uses_it_again_where_no_other_memory_is, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_crowd_that_stays_holds_up_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_segment_stays_in_its_group, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lease_is_nobody_elses_and_its_party_pays, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
