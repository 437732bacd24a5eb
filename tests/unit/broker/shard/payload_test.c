/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads: each kind of memory goes back where it came from, by one call. A slot in GPU memory is
 * in gpuslot_test.c.
 */
#include "broker/session/session.h"
#include "broker/shard/payload.h"
#include "broker/shard/segment_lease.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    struct shard_client *p;
    struct client_lease mapped;
    struct amb_shard *shard;
    struct amb_lease_book *book;
    struct amb_segment_lease *lease;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL);
    w->p = shard_client_create(&w->h, 0,
                               &(struct client_options){.may_map = true, .answers_offers = true});
    assert_int_equal(client_lease_open(w->p, 4096, 4, &w->mapped), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &w->mapped), AMB_OK);
    w->shard = &w->h.shards[0];
    w->book = &w->p->session->book;
    w->lease = amb_segment_lease_find(w->book, w->mapped.segment);
    assert_non_null(w->lease);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    client_lease_fini(&w->mapped);
    harness_fini(&w->h);
    free(w);
    return 0;
}

/* The next commit, of the slot at 0, whose offsets are all that its buffer holds. */
static void commit_first_slot(struct world *w, struct amb_payload *payload)
{
    amb_commit_begin(w->book, &payload->commit, w->lease);
    payload->kind = AMB_PAYLOAD_SLOTS;
    uint64_t *offsets = (uint64_t *)(void *)payload->buf.data;
    offsets[0] = 0;
    payload->commit.offsets = offsets;
    assert_int_equal(amb_commit_take(&payload->commit, 0, 4096), AMB_OK);
}

static void test_of_others_memory_nothing_is_given_back(void **state)
{
    struct world *w = *state;
    struct amb_payload payload = {0};
    amb_payload_end(&payload, w->shard);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_buffer_goes_back_to_its_pool(void **state)
{
    struct world *w = *state;
    struct amb_payload payload = {.kind = AMB_PAYLOAD_BUFFER};
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.private_pool, 100, &payload.buf), AMB_OK);
    assert_true(w->shard->memory.private_pool.used > 0);
    amb_payload_end(&payload, w->shard);
    assert_int_equal(w->shard->memory.private_pool.used, 0);
}

static void test_slots_are_free_and_their_commit_is_over(void **state)
{
    struct world *w = *state;
    struct amb_payload payload = {0}, next = {0};
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.bufpool, 64, &payload.buf), AMB_OK);
    commit_first_slot(w, &payload);
    assert_int_equal(amb_lease_book_over(w->book), 0);
    amb_payload_end(&payload, w->shard);
    assert_int_equal(amb_lease_book_over(w->book), 1);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.bufpool, 64, &next.buf), AMB_OK);
    commit_first_slot(w, &next);
    amb_payload_end(&next, w->shard);
}

static void test_records_in_the_heap_are_charged_to_their_session(void **state)
{
    struct world *w = *state;
    struct amb_heap_account *heap = &w->p->session->heap;
    uint64_t before = heap->bytes;
    struct amb_payload payload = {0};
    assert_int_equal(amb_payload_alloc_heap(&payload, w->shard, heap, 100), AMB_OK);
    assert_true(heap->bytes >= before + 100 && w->shard->memory.heap_bufs >= 100);
    assert_null(amb_payload_mem(&payload));
    commit_first_slot(w, &payload);
    amb_payload_end(&payload, w->shard);
    assert_int_equal(heap->bytes, before);
    assert_int_equal(w->shard->memory.heap_bufs, 0);
}

static void test_a_refused_commit_has_no_buffer_and_is_over(void **state)
{
    struct world *w = *state;
    struct amb_payload payload = {.kind = AMB_PAYLOAD_SLOTS};
    amb_commit_begin(w->book, &payload.commit, w->lease);
    amb_payload_end(&payload, w->shard);
    assert_int_equal(amb_lease_book_over(w->book), 1);
}

static void test_a_copy_frees_the_slots_at_once_and_its_commit_when_settled(void **state)
{
    struct world *w = *state;
    struct amb_payload payload = {0}, next = {0};
    struct amb_buf copy;
    struct amb_heap_account *heap = &w->p->session->heap;
    uint64_t before = heap->bytes;
    assert_int_equal(amb_payload_alloc_heap(&payload, w->shard, heap, 64), AMB_OK);
    commit_first_slot(w, &payload);
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.bufpool, 4096, &copy), AMB_OK);
    amb_payload_copied(&payload, w->shard, &copy);
    assert_int_equal(heap->bytes, before);
    assert_int_equal(payload.kind, AMB_PAYLOAD_COPIED);
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.bufpool, 64, &next.buf), AMB_OK);
    commit_first_slot(w, &next);
    assert_int_equal(amb_lease_book_over(w->book), 0);
    amb_payload_settled(&payload);
    assert_int_equal(amb_lease_book_over(w->book), 1);
    /* The worker that has its topic may read the kind just now. */
    assert_int_equal(payload.kind, AMB_PAYLOAD_COPIED);
    amb_payload_end(&payload, w->shard);
    amb_payload_end(&next, w->shard);
    assert_int_equal(amb_lease_book_over(w->book), 2);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_copy_that_nobody_settled_ends_its_commit(void **state)
{
    struct world *w = *state;
    struct amb_payload payload = {0};
    struct amb_buf copy;
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.bufpool, 64, &payload.buf), AMB_OK);
    commit_first_slot(w, &payload);
    assert_int_equal(amb_bufpool_alloc(&w->shard->memory.bufpool, 4096, &copy), AMB_OK);
    amb_payload_copied(&payload, w->shard, &copy);
    amb_payload_end(&payload, w->shard);
    assert_int_equal(amb_lease_book_over(w->book), 1);
    assert_int_equal(harness_used(&w->h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_of_others_memory_nothing_is_given_back),
        T(test_a_buffer_goes_back_to_its_pool),
        T(test_slots_are_free_and_their_commit_is_over),
        T(test_records_in_the_heap_are_charged_to_their_session),
        T(test_a_refused_commit_has_no_buffer_and_is_over),
        T(test_a_copy_frees_the_slots_at_once_and_its_commit_when_settled),
        T(test_a_copy_that_nobody_settled_ends_its_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
