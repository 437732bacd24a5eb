/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: found by value, mappings, room in the link.
 */
#include "broker/delivery/reader/subscription.h"
#include "broker/session/retire.h"
#include "broker/session/session.h"
#include "tests/support/shard/shard_pair.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)

static struct shard_pair *begin(uint64_t windows_max)
{
    struct shard_pair *w = shard_pair_begin(2, &(struct client_options){.may_map = true});
    w->h.shards[0].windows.max = windows_max;
    client_open_pub(w->p, 0, w->topic, false);
    client_subscribe(w->s, 0, w->topic, NULL);
    harness_settle(&w->h);
    return w;
}

static int setup(void **state)
{
    *state = begin(0);
    return 0;
}

/* No window stands open, so no segment is kept for one. */
static int setup_without_windows(void **state)
{
    *state = begin(1);
    return 0;
}

static void test_a_session_is_found_by_index_and_generation_only(void **state)
{
    struct shard_pair *w = *state;
    const struct amb_session *session = w->s->session;
    struct amb_shard *shard = &w->h.shards[1];
    assert_ptr_equal(amb_session_find(shard, session->index, session->generation), session);
    assert_null(amb_session_find(shard, session->index, session->generation + 1));
    assert_null(amb_session_find(shard, 0, 1)); /* of the other shard */
    assert_null(amb_session_find(shard, AMB_SESSIONS_MAX - 1, 1));
}

/* Few handles cost few: blocks come with use, and each is charged. */
static void test_handles_cost_heap_by_use(void **state)
{
    struct shard_pair *w = *state;
    struct amb_session *session = w->s->session;
    uint64_t before = session->heap.bytes;
    const uint32_t last = AMB_HANDLES_MAX - 1;
    assert_null(amb_session_publisher(session, last));
    assert_null(amb_session_subscription(session, last));
    assert_int_equal(session->heap.bytes, before);
    struct amb_handles *first = amb_session_handles(session, 0);
    assert_ptr_equal(amb_session_handles(session, AMB_HANDLES_EACH - 1), first);
    assert_int_equal(session->heap.bytes, before); /* 0 is in use. */
    struct amb_handles *other = amb_session_handles(session, last);
    assert_ptr_not_equal(other, first);
    assert_int_equal(session->heap.bytes, before + sizeof(*other) + AMB_HEAP_OVERHEAD);
    struct amb_subscription_options options = {0};
    struct amb_subscription *sub;
    assert_int_equal(amb_subscription_create(session, last, 7, &options, &sub), AMB_OK);
    assert_ptr_equal(amb_session_subscription(session, last), sub);
    assert_null(amb_session_subscription(session, last - 1));
    assert_null(amb_session_publisher(session, last));
    amb_subscription_destroy(&sub, false);
    assert_null(amb_session_subscription(session, last));
}

static void test_small_bodies_are_copied_until_their_segment_is_mapped(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 100);
    assert_int_equal(shard_pair_frame_type(w, 1), AMB_FRAME_DELIVER);
    assert_int_equal(w->s->segment_count, 1);
    shard_pair_publish(w, 100);
    assert_int_equal(shard_pair_frame_type(w, 2), AMB_FRAME_DELIVER);
    assert_int_equal(w->s->segment_count, 1); /* offered once */
    client_map(w->s, w->s->segments[0].id);
    shard_pair_publish(w, 100);
    assert_int_equal(shard_pair_frame_type(w, 3), AMB_FRAME_MAP);
    client_check_held(w->s, 0);
}

static void test_large_bodies_wait_for_the_mapping(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 200 * KIB);
    shard_pair_publish(w, 100);
    assert_int_equal(w->s->subs[0].last, 0); /* nor does what is behind it pass */
    client_map(w->s, w->s->segments[0].id);
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].last, 2);
    assert_int_equal(shard_pair_frame_type(w, 1), AMB_FRAME_MAP);
}

static void test_a_refused_mapping_means_copies(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 200 * KIB);
    client_refuse(w->s, w->s->segments[0].id);
    harness_settle(&w->h);
    shard_pair_publish(w, 100);
    assert_int_equal(w->s->subs[0].last, 2);
    assert_int_equal(shard_pair_frame_type(w, 1), AMB_FRAME_DELIVER);
    assert_int_equal(shard_pair_frame_type(w, 2), AMB_FRAME_DELIVER);
}

static void test_who_may_not_map_is_offered_nothing(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *remote = shard_client_create(&w->h, 0, NULL);
    client_subscribe(remote, 0, w->topic, NULL);
    client_subscribe(w->s, 1, w->topic, &(struct amb_subscription_options){.copy = true});
    harness_settle(&w->h);
    shard_pair_publish(w, 200 * KIB);
    assert_int_equal(remote->segment_count, 0);
    assert_int_equal(remote->subs[0].last, 1);
    assert_int_equal(w->s->subs[1].last, 1);
    assert_int_equal(client_delivery(w->s, 1, 1)->frame.type, AMB_FRAME_DELIVER);
}

/* A group that its rights do not cover: it is served by copy, however large a message is. */
static void test_memory_of_other_groups_is_not_offered(void **state)
{
    struct shard_pair *w = *state;
    w->s->session->maps = ~UINT64_C(1);
    shard_pair_publish(w, 200 * KIB);
    shard_pair_publish(w, 100);
    w->s->session->maps = UINT64_MAX;
    w->s->session->tenant = 7;
    shard_pair_publish(w, 200 * KIB);
    assert_int_equal(w->s->segment_count, 0);
    assert_int_equal(w->s->session->mapping_count, 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(shard_pair_frame_type(w, i), AMB_FRAME_DELIVER);
    }
    assert_int_equal(w->s->session->paths.out.why, AMB_PATH_GROUP);
}

static void test_made_up_segments_are_ignored(void **state)
{
    struct shard_pair *w = *state;
    client_send_frame(w->s, &(struct amb_frame){.type = AMB_FRAME_SEG_READY, .segment = 77});
    client_send_frame(w->s, &(struct amb_frame){.type = AMB_FRAME_SEG_GONE, .segment = 77});
    harness_settle(&w->h);
    assert_int_equal(w->s->ended, 0);
    assert_int_equal(w->s->session->mapping_count, 0);
}

/* Each offer is a descriptor that waits until the client reads it. */
static void test_who_unmaps_a_segment_unasked_is_not_offered_it_again(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 200 * KIB);
    uint64_t segment = w->s->segments[0].id;
    client_map(w->s, segment);
    harness_settle(&w->h);
    assert_int_equal(shard_pair_frame_type(w, 1), AMB_FRAME_MAP);
    for (unsigned i = 0; i < 3; i++) {
        client_send_frame(w->s,
                          &(struct amb_frame){.type = AMB_FRAME_SEG_GONE, .segment = segment});
        harness_settle(&w->h);
        shard_pair_publish(w, 100);
        assert_int_equal(shard_pair_frame_type(w, 2 + i), AMB_FRAME_DELIVER);
    }
    assert_int_equal(w->s->segment_count, 1);
}

static void test_a_segment_that_goes_is_dropped_by_its_clients(void **state)
{
    struct shard_pair *w = *state;
    w->s->answers_offers = true;
    shard_pair_publish(w, 3000 * KIB); /* a segment of its own */
    assert_int_equal(shard_pair_frame_type(w, 1), AMB_FRAME_MAP);
    client_drain(w->s, 0);
    assert_int_equal(w->s->drops, 0); /* kept for the next one */
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    assert_int_equal(w->s->drops, 1);
    assert_int_equal(w->s->session->mapping_count, 0);
}

static void test_a_segment_that_goes_before_it_is_mapped_is_dropped_then(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 100);
    client_drain(w->s, 0);
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    assert_int_equal(w->s->drops, 0);
    client_map(w->s, w->s->segments[0].id);
    harness_settle(&w->h);
    assert_int_equal(w->s->drops, 1);
    assert_int_equal(w->s->session->mapping_count, 0);
}

static void test_a_refused_segment_that_goes_leaves_no_trace(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 100);
    client_refuse(w->s, w->s->segments[0].id);
    client_drain(w->s, 0);
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    assert_int_equal(w->s->session->mapping_count, 0);
    /* ... or is refused after it has gone. */
    shard_pair_publish(w, 100);
    uint64_t segment = w->s->segments[1].id;
    client_drain(w->s, 0);
    amb_bufpool_trim(&w->h.shards[0].memory.bufpool, 0);
    harness_settle(&w->h);
    client_refuse(w->s, segment);
    assert_int_equal(w->s->session->mapping_count, 0);
}

static void test_a_link_has_room_for_so_many_frames(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *slow =
        shard_client_create(&w->h, 0, &(struct client_options){.link_bytes_max = 1});
    client_subscribe(slow, 0, w->topic, NULL);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 200; i++) {
        client_send(w->p, 0, 1, 16);
        amb_link_flush(w->p->link);
        (void)harness_turn(&w->h, 0);
    }
    assert_true(slow->session->link->queued <= AMB_SESSION_QUEUED_MAX + 1);
    assert_false(amb_list_is_empty(&slow->session->stalled));
    harness_settle(&w->h);
    assert_int_equal(slow->subs[0].last, 200);
    assert_int_equal(slow->subs[0].lost, 0);
    client_drain(w->s, 0);
    client_drain(slow, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
        T(test_a_session_is_found_by_index_and_generation_only),
        T(test_handles_cost_heap_by_use),
        T(test_small_bodies_are_copied_until_their_segment_is_mapped),
        T(test_large_bodies_wait_for_the_mapping),
        T(test_a_refused_mapping_means_copies),
        T(test_who_may_not_map_is_offered_nothing),
        T(test_memory_of_other_groups_is_not_offered),
        T(test_made_up_segments_are_ignored),
        T(test_who_unmaps_a_segment_unasked_is_not_offered_it_again),
        T(test_a_segment_that_goes_is_dropped_by_its_clients),
        cmocka_unit_test_setup_teardown(
            test_a_segment_that_goes_before_it_is_mapped_is_dropped_then, setup_without_windows,
            shard_pair_teardown),
        cmocka_unit_test_setup_teardown(test_a_refused_segment_that_goes_leaves_no_trace,
                                        setup_without_windows, shard_pair_teardown),
        T(test_a_link_has_room_for_so_many_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
