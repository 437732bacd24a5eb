/* SPDX-License-Identifier: Apache-2.0 */
/* Lease segments: sizes, how they come and go, and which slots are taken next. */
#include "tests/unit/client/session.h"

#include "client/drive/lock.h"
#include "client/memory/commits.h"
#include "client/memory/slots.h"
#include "client/memory/slots_life.h"

#include <sys/mman.h>

#define MIB (UINT64_C(1) << 20)

static struct amb_slot_wish of(uint64_t len)
{
    return (struct amb_slot_wish){.len = len};
}

static void sizes_are_few_and_waste_little_of_a_large_slot(void **state)
{
    (void)state;
    assert_int_equal(amb_slot_size(0), 4096);
    assert_int_equal(amb_slot_size(4096), 4096);
    assert_int_equal(amb_slot_size(4097), 16384);
    assert_int_equal(amb_slot_size(65536), 65536);
    assert_int_equal(amb_slot_size(65537), 262144);
    assert_int_equal(amb_slot_size(MIB), MIB);
    assert_int_equal(amb_slot_size(MIB + 1), MIB + MIB / 4);
    assert_int_equal(amb_slot_size(64 * MIB), 64 * MIB);
    uint64_t last = 0, sizes = 0;
    for (uint64_t len = 1; len < UINT64_C(1) << 32; len += len / 16 + 1) {
        uint64_t size = amb_slot_size(len);
        assert_true(size >= len && size >= last && size % 4096 == 0);
        assert_true(len <= MIB || size - len <= size / 4);
        assert_int_equal(amb_slot_size(size), size);
        sizes += size != last;
        last = size;
    }
    assert_true(sizes < 64);
}

struct arena {
    struct session s;
    struct amb_conn *conn;
};

static void arena_open(struct arena *arena, uint64_t lease_bytes, bool refuses)
{
    const struct fake_options options = {.lease_bytes = lease_bytes, .refuses_leases = refuses};
    session_open(&arena->s, &options, NULL);
    arena->conn = arena->s.conn;
}

/* Until the segment that was asked for is here. */
static void wait_ready(struct arena *arena, uint64_t len)
{
    amb_conn_lock(arena->conn);
    enum amb_slots_room room;
    while ((room = amb_slots_look(arena->conn, of(len))) == AMB_ROOM_COMING) {
        amb_conn_unlock(arena->conn);
        fake_broker_nap();
        amb_conn_lock(arena->conn);
    }
    amb_conn_unlock(arena->conn);
    assert_int_equal(room, AMB_ROOM_FREE);
}

/* Opens a segment for such messages and waits until it can be used. */
static void arena_grow(struct arena *arena, uint64_t len)
{
    amb_conn_lock(arena->conn);
    assert_true(amb_slots_open(arena->conn, of(len)));
    assert_int_equal(amb_slots_look(arena->conn, of(len)), AMB_ROOM_COMING);
    amb_conn_unlock(arena->conn);
    wait_ready(arena, len);
}

static void a_segment_is_mapped_and_sealed_before_it_is_used(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 64 * MIB, false);
    arena_grow(&arena, 65536);
    fake_broker_look(arena.s.fake, &arena.s.seen);
    assert_int_equal(arena.s.seen.leases_opened, 1);
    assert_int_equal(arena.s.seen.leases_mapped, 1);
    assert_int_equal(arena.s.seen.lease_bytes, 16 * MIB);
    amb_conn_lock(arena.conn);
    struct amb_place place;
    assert_true(amb_place_take(arena.conn, of(60000), &place));
    assert_int_equal(amb_slots_look(arena.conn, of(4096)), AMB_ROOM_NONE);
    memset(amb_place_bytes(&place), 'x', 65536);
    amb_place_return(&place);
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void the_slot_returned_last_is_taken_first(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 64 * MIB, false);
    arena_grow(&arena, 3 * MIB);
    amb_conn_lock(arena.conn);
    struct amb_place places[3], again;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(amb_place_take(arena.conn, of(3 * MIB), &places[i]));
        assert_true(i == 0 || places[i].slot != places[0].slot);
    }
    amb_place_return(&places[0]);
    amb_place_return(&places[2]);
    assert_true(amb_place_take(arena.conn, of(3 * MIB), &again));
    assert_int_equal(again.slot, places[2].slot);
    amb_place_return(&again);
    amb_place_return(&places[1]);
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void commits_come_back_in_any_order(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 64 * MIB, false);
    arena_grow(&arena, 4 * MIB);
    struct amb_leases *leases = &arena.conn->leases;
    amb_conn_lock(arena.conn);
    struct amb_place places[4], none;
    for (unsigned i = 0; i < 4; i++) {
        assert_true(amb_place_take(arena.conn, of(4 * MIB), &places[i]));
        places[i].slots->next[places[i].slot] = AMB_SLOT_NONE;
    }
    assert_int_equal(amb_slots_look(arena.conn, of(4 * MIB)), AMB_ROOM_LEASED);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(amb_commits_reserve(leases), AMB_OK);
        assert_int_equal(amb_commits_add(leases, places[i].slots, places[i].slot, 1), i + 1);
    }
    assert_int_equal(amb_slots_look(arena.conn, of(4 * MIB)), AMB_ROOM_IN_USE);
    assert_false(amb_place_take(arena.conn, of(4 * MIB), &none));
    assert_int_equal(amb_commits_freed(arena.conn, 5), AMB_EPROTO);
    assert_int_equal(amb_commits_freed_range(arena.conn, 4, 2), AMB_EPROTO);
    assert_int_equal(amb_commits_freed_range(arena.conn, 0, 1), AMB_EPROTO);
    assert_int_equal(amb_commits_freed_range(arena.conn, 3, 2), AMB_OK);
    assert_int_equal(places[0].slots->free_count, 2);
    assert_int_equal(amb_commits_freed(arena.conn, 2), AMB_OK);
    assert_int_equal(places[0].slots->free_count, 4);
    assert_int_equal(amb_commits_freed_range(arena.conn, 1, 4), AMB_OK); /* late: harmless */
    assert_int_equal(amb_commits_freed(arena.conn, 4), AMB_OK);
    assert_int_equal(amb_commits_freed(arena.conn, 1), AMB_OK);
    assert_int_equal(places[0].slots->free_count, 4);
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void a_larger_slot_does_where_it_is_not_twice_as_large(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 64 * MIB, false);
    arena_grow(&arena, 2 * MIB);
    amb_conn_lock(arena.conn);
    assert_int_equal(amb_slots_look(arena.conn, of(MIB + 1)), AMB_ROOM_FREE);
    assert_int_equal(amb_slots_look(arena.conn, of(2 * MIB + 1)), AMB_ROOM_NONE);
    assert_int_equal(amb_slots_look(arena.conn, of(262144)), AMB_ROOM_NONE);
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void idle_segments_make_room_below_the_cap(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 36 * MIB, false);
    arena_grow(&arena, 4 * MIB);
    arena_grow(&arena, 65536);
    amb_conn_lock(arena.conn);
    assert_int_equal(arena.conn->leases.bytes, 32 * MIB);
    /* Both are in use: four MiB are left, and a quarter of a segment is one. */
    AMB_LIST_FOR_EACH (node, &arena.conn->leases.segments) {
        AMB_CONTAINER_OF(node, struct amb_slots, node)->was_used = true;
    }
    assert_true(amb_slots_open(arena.conn, of(16384)));
    assert_int_equal(arena.conn->leases.bytes, 36 * MIB);
    assert_false(amb_slots_open(arena.conn, of(16 * MIB)));
    amb_conn_unlock(arena.conn);
    wait_ready(&arena, 16384);
    amb_conn_lock(arena.conn);
    AMB_LIST_FOR_EACH (node, &arena.conn->leases.segments) {
        struct amb_slots *slots = AMB_CONTAINER_OF(node, struct amb_slots, node);
        slots->was_used = false;
    }
    assert_true(amb_slots_open(arena.conn, of(8 * MIB)));
    assert_true(arena.conn->leases.bytes >= 32 * MIB);
    amb_conn_unlock(arena.conn);
    FAKE_WAIT(arena.s.fake, &arena.s.seen, arena.s.seen.leases_closed >= 2);
    session_close(&arena.s);
}

/* One large message takes one slot's memory; the second asks for what there would be at once. */
static void large_slots_begin_with_one(void **state)
{
    (void)state;
    struct arena arena;
    struct amb_place place, second, third;
    arena_open(&arena, 256 * MIB, false);
    arena_grow(&arena, 32 * MIB);
    fake_broker_look(arena.s.fake, &arena.s.seen);
    assert_int_equal(arena.s.seen.lease_bytes, 32 * MIB);
    amb_conn_lock(arena.conn);
    assert_true(amb_place_take(arena.conn, of(32 * MIB), &place));
    assert_true(amb_slots_are_few(arena.conn, of(32 * MIB)));
    amb_conn_unlock(arena.conn);
    arena_grow(&arena, 32 * MIB);
    fake_broker_look(arena.s.fake, &arena.s.seen);
    assert_int_equal(arena.s.seen.leases_opened, 2);
    assert_int_equal(arena.conn->leases.bytes, 128 * MIB);
    amb_conn_lock(arena.conn);
    assert_false(amb_slots_are_few(arena.conn, of(32 * MIB))); /* It has been asked once. */
    assert_true(amb_place_take(arena.conn, of(32 * MIB), &second));
    assert_false(amb_slots_are_deep(arena.conn, of(32 * MIB)));
    assert_true(amb_place_take(arena.conn, of(32 * MIB), &third));
    assert_true(amb_slots_are_deep(arena.conn, of(32 * MIB))); /* of both segments together */
    amb_place_return(&third);
    amb_place_return(&second);
    amb_place_return(&place);
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void the_depth_follows_what_readers_keep(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 36 * MIB, false);
    arena_grow(&arena, MIB);
    struct amb_leases *leases = &arena.conn->leases;
    amb_conn_lock(arena.conn);
    assert_false(amb_slots_are_deep(arena.conn, of(65536))); /* there is none */
    struct amb_place place;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(amb_slots_are_deep(arena.conn, of(MIB)), i >= 3);
        assert_true(amb_place_take(arena.conn, of(MIB), &place));
        place.slots->next[place.slot] = AMB_SLOT_NONE;
        assert_int_equal(amb_commits_reserve(leases), AMB_OK);
        (void)amb_commits_add(leases, place.slots, place.slot, 1);
    }
    amb_slots_deepen(arena.conn, of(MIB)); /* They keep six. */
    assert_false(amb_slots_are_deep(arena.conn, of(MIB)));
    assert_int_equal(amb_commits_freed(arena.conn, 6), AMB_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(amb_place_take(arena.conn, of(MIB), &place));
    }
    assert_true(amb_slots_are_deep(arena.conn, of(MIB)));
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void half_of_the_slots_may_be_away_until_readers_are_slow(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 36 * MIB, false);
    arena_grow(&arena, MIB); /* 16 slots */
    struct amb_leases *leases = &arena.conn->leases;
    amb_conn_lock(arena.conn);
    assert_false(amb_slots_are_away(arena.conn, of(65536))); /* there is none */
    struct amb_place place, kept;
    assert_true(
        amb_place_take(arena.conn, of(MIB), &kept)); /* a lease is the program's, not away */
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(amb_slots_are_away(arena.conn, of(MIB)), i >= 8);
        assert_true(amb_place_take(arena.conn, of(MIB), &place));
        place.slots->next[place.slot] = AMB_SLOT_NONE;
        assert_int_equal(amb_commits_reserve(leases), AMB_OK);
        (void)amb_commits_add(leases, place.slots, place.slot, 1);
    }
    amb_slots_let_go(arena.conn, of(MIB)); /* They keep ten: two more may go. */
    assert_false(amb_slots_are_away(arena.conn, of(MIB)));
    assert_int_equal(place.slots->depth, 13);
    assert_int_equal(amb_commits_freed(arena.conn, 10), AMB_OK);
    assert_int_equal(place.slots->depth, 8); /* They are quick again. */
    amb_place_return(&kept);
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

static void a_segment_that_is_idle_for_long_is_given_back(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 36 * MIB, false);
    arena_grow(&arena, 65536);
    amb_conn_lock(arena.conn);
    int64_t now = amb_clock_monotonic_ns();
    amb_slots_turn(arena.conn, now + 2 * AMB_SEC);
    amb_slots_turn(arena.conn, now + AMB_SLOTS_IDLE_NS);
    assert_int_equal(amb_slots_look(arena.conn, of(65536)), AMB_ROOM_FREE);
    amb_slots_turn(arena.conn, now + AMB_SLOTS_IDLE_NS + 4 * AMB_SEC);
    assert_int_equal(amb_slots_look(arena.conn, of(65536)), AMB_ROOM_NONE);
    assert_int_equal(arena.conn->leases.bytes, 0);
    amb_conn_unlock(arena.conn);
    FAKE_WAIT(arena.s.fake, &arena.s.seen, arena.s.seen.leases_closed == 1);
    session_close(&arena.s);
}

static void a_refusal_is_believed_for_a_while(void **state)
{
    (void)state;
    struct arena arena;
    arena_open(&arena, 36 * MIB, true);
    amb_conn_lock(arena.conn);
    assert_true(amb_slots_open(arena.conn, of(65536)));
    while (amb_slots_look(arena.conn, of(65536)) == AMB_ROOM_COMING) {
        amb_conn_unlock(arena.conn);
        fake_broker_nap();
        amb_conn_lock(arena.conn);
    }
    assert_int_equal(amb_slots_look(arena.conn, of(65536)), AMB_ROOM_NONE);
    assert_false(amb_slots_open(arena.conn, of(65536)));
    assert_int_equal(arena.conn->leases.bytes, 0);
    arena.conn->leases.refused_ns -= 2 * AMB_SEC;
    assert_true(amb_slots_open(arena.conn, of(65536)));
    amb_conn_unlock(arena.conn);
    session_close(&arena.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_few_and_waste_little_of_a_large_slot),
        cmocka_unit_test(a_segment_is_mapped_and_sealed_before_it_is_used),
        cmocka_unit_test(the_slot_returned_last_is_taken_first),
        cmocka_unit_test(commits_come_back_in_any_order),
        cmocka_unit_test(a_larger_slot_does_where_it_is_not_twice_as_large),
        cmocka_unit_test(idle_segments_make_room_below_the_cap),
        cmocka_unit_test(large_slots_begin_with_one),
        cmocka_unit_test(the_depth_follows_what_readers_keep),
        cmocka_unit_test(half_of_the_slots_may_be_away_until_readers_are_slow),
        cmocka_unit_test(a_segment_that_is_idle_for_long_is_given_back),
        cmocka_unit_test(a_refusal_is_believed_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
