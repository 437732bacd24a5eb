/* SPDX-License-Identifier: Apache-2.0 */
/* A queue with seats that nobody sits in, and one entry. */
#include "broker/delivery/acks/queue_choose.h"

#include "broker/delivery/acks/queue_private.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/acks/taker_seat.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEATS 4u
#define MSGS 12u
#define EACH 100u /* bytes of a message, its record among them */

/* The first two seats are those of remote members, the others are on the host. */
enum {
    FAR_A,
    FAR_B,
    NEAR_A,
    NEAR_B
};

struct world {
    struct amb_queue queue;
    struct amb_seat seats[SEATS];
    struct amb_segment segment;
    struct amb_gpu_pool pools[2];
    struct amb_record records[MSGS];
    struct amb_entry entry;
    bool is_by_nearness;
    int64_t now_ns;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    amb_list_init(&w->queue.seats);
    for (unsigned i = 0; i < SEATS; i++) {
        w->seats[i].to.sub = i + 1;
        w->seats[i].credit_msgs = 100;
        w->seats[i].credit_bytes = 100 * EACH;
        w->seats[i].nearness = i < NEAR_A ? AMB_NEARNESS_REMOTE : AMB_NEARNESS_HOST;
        amb_list_push_back(&w->queue.seats, &w->seats[i].node);
    }
    w->queue.seat_count = SEATS;
    w->pools[1].index = 1;
    w->entry.segment = &w->segment;
    w->entry.count = MSGS;
    w->entry.meta = (uint8_t *)w->records;
    w->entry.meta_len = sizeof(w->records);
    w->entry.data_len = (uint64_t)MSGS * EACH - sizeof(w->records);
    w->is_by_nearness = true;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static uint32_t choose(const struct world *w, uint32_t first, unsigned *who)
{
    const struct amb_choice choice = {.entry = &w->entry,
                                      .first = first,
                                      .count = MSGS - first,
                                      .is_by_nearness = w->is_by_nearness,
                                      .now_ns = w->now_ns};
    struct amb_seat *seat = NULL;
    uint32_t n = amb_queue_choose(&w->queue, &choice, &seat);
    *who = seat == NULL ? SEATS : (unsigned)(seat - w->seats);
    return n;
}

static void expect(const struct world *w, unsigned who, uint32_t count)
{
    unsigned chosen;
    assert_int_equal(choose(w, 0, &chosen), count);
    assert_int_equal(chosen, who);
}

static void has_out(struct world *w, unsigned who, uint64_t msgs, uint64_t bytes)
{
    w->seats[who].given_msgs = msgs;
    w->seats[who].given_bytes = bytes;
}

static void test_by_credit_the_one_with_most_of_it_gets_its_share(void **state)
{
    struct world *w = *state;
    w->is_by_nearness = false;
    has_out(w, NEAR_A, 1, EACH);
    has_out(w, NEAR_B, 2, 2 * EACH);
    has_out(w, FAR_A, 1, EACH);
    expect(w, FAR_B, MSGS / SEATS);
}

static void test_the_nearest_share_a_batch(void **state)
{
    struct world *w = *state;
    has_out(w, NEAR_A, 2, 2 * EACH);
    has_out(w, NEAR_B, 1, EACH);
    expect(w, NEAR_B, MSGS / 2); /* Of equals the one with most credit. */
    w->seats[NEAR_A].nearness = AMB_NEARNESS_REMOTE;
    expect(w, NEAR_B, MSGS); /* One alone gets all of it. */
}

static void test_half_of_the_credit_is_enough_and_less_is_not(void **state)
{
    struct world *w = *state;
    has_out(w, NEAR_A, 51, 51 * EACH);
    has_out(w, NEAR_B, 50, 50 * EACH);
    expect(w, NEAR_B, MSGS);
    has_out(w, NEAR_B, 51, 51 * EACH);
    expect(w, FAR_A, MSGS / 2);
    has_out(w, NEAR_B, 1, 50 * EACH + 1); /* Bytes count as messages do. */
    expect(w, FAR_A, MSGS / 2);
}

static void test_one_without_anything_has_all_of_its_credit(void **state)
{
    struct world *w = *state;
    has_out(w, NEAR_A, 60, 60 * EACH);
    w->seats[NEAR_B].credit_msgs = 1;
    w->seats[NEAR_B].credit_bytes = 1;
    expect(w, NEAR_B, 1);
}

static void test_where_nobody_has_half_credit_decides(void **state)
{
    struct world *w = *state;
    has_out(w, NEAR_A, 90, 90 * EACH);
    has_out(w, NEAR_B, 80, 80 * EACH);
    has_out(w, FAR_A, 60, 60 * EACH);
    has_out(w, FAR_B, 70, 70 * EACH);
    expect(w, FAR_A, MSGS / SEATS);
    has_out(w, FAR_A, 100, 100 * EACH);
    has_out(w, FAR_B, 100, 100 * EACH);
    expect(w, NEAR_B, MSGS / SEATS);
}

static void test_who_is_full_is_passed_over(void **state)
{
    struct world *w = *state;
    for (unsigned i = NEAR_A; i < SEATS; i++) {
        has_out(w, i, 1, EACH);
        atomic_store(&w->seats[i].is_full, true);
    }
    expect(w, FAR_A, MSGS / 2);
    for (unsigned i = 0; i < SEATS; i++) {
        has_out(w, i, 100, 100 * EACH);
    }
    expect(w, SEATS, 0);
}

static void test_a_key_goes_before_nearness(void **state)
{
    struct world *w = *state;
    unsigned times[SEATS] = {0};
    for (uint32_t key = 1; key <= 64; key++) {
        unsigned near, by_credit;
        w->records[0].key_hash = key;
        assert_int_equal(choose(w, 0, &near), 1);
        w->is_by_nearness = false;
        (void)choose(w, 0, &by_credit);
        w->is_by_nearness = true;
        assert_int_equal(near, by_credit);
        times[near]++;
    }
    for (unsigned i = 0; i < SEATS; i++) {
        assert_true(times[i] > 0);
    }
    unsigned who;
    assert_int_equal(choose(w, 1, &who), MSGS / 2); /* Those behind it have none. */
    assert_int_equal(who, NEAR_A);
}

static void test_in_place_on_the_payload_s_gpu_is_nearest(void **state)
{
    struct world *w = *state;
    w->seats[NEAR_B].nearness = AMB_NEARNESS_GPU;
    has_out(w, NEAR_B, 40, 40 * EACH);
    expect(w, NEAR_A, MSGS / 2); /* The payload is in host memory. */
    w->segment.gpu = &w->pools[1];
    expect(w, NEAR_B, MSGS);
    has_out(w, NEAR_B, 51, 51 * EACH);
    expect(w, NEAR_A, MSGS);
}

static void test_one_that_could_not_read_there_is_as_near_as_others_of_the_host(void **state)
{
    struct world *w = *state;
    static struct amb_shard shard;
    struct amb_taker taker = {.seat = &w->seats[NEAR_B], .shard = &shard};
    w->seats[NEAR_B].nearness = AMB_NEARNESS_GPU;
    has_out(w, NEAR_B, 40, 40 * EACH);
    w->segment.gpu = &w->pools[1];
    amb_seat_in_place(&taker, &w->pools[1], false);
    expect(w, NEAR_A, MSGS / 2);
    w->segment.gpu = &w->pools[0]; /* Another device is another matter. */
    expect(w, NEAR_B, MSGS);
    w->segment.gpu = &w->pools[1];
    amb_seat_in_place(&taker, &w->pools[1], true);
    expect(w, NEAR_B, MSGS);
}

/* It gets nothing there by which it could show that it reads in place again. */
static void test_one_that_could_not_read_there_is_tried_again_later(void **state)
{
    struct world *w = *state;
    static struct amb_shard shard;
    struct amb_taker taker = {.seat = &w->seats[NEAR_B], .shard = &shard};
    w->seats[NEAR_B].nearness = AMB_NEARNESS_GPU;
    has_out(w, NEAR_B, 40, 40 * EACH);
    w->segment.gpu = &w->pools[1];
    shard.now_ns = 1000;
    amb_seat_in_place(&taker, &w->pools[1], false);
    w->now_ns = 1000 + AMB_NEARNESS_AGAIN_NS - 1;
    expect(w, NEAR_A, MSGS / 2);
    /* Further misses do not put it off, whatever device they are of. */
    shard.now_ns = w->now_ns;
    amb_seat_in_place(&taker, &w->pools[1], false);
    amb_seat_in_place(&taker, &w->pools[0], false);
    expect(w, NEAR_A, MSGS / 2);
    w->now_ns++;
    expect(w, NEAR_B, MSGS);
    /* It misses again: for as long. The other device has been forgotten with the time. */
    shard.now_ns = w->now_ns;
    amb_seat_in_place(&taker, &w->pools[1], false);
    expect(w, NEAR_A, MSGS / 2);
    w->segment.gpu = &w->pools[0];
    expect(w, NEAR_B, MSGS);
    w->segment.gpu = &w->pools[1];
    w->now_ns += AMB_NEARNESS_AGAIN_NS;
    expect(w, NEAR_B, MSGS);
    /* It has read in place: nothing is left of that. */
    shard.now_ns = w->now_ns;
    amb_seat_in_place(&taker, &w->pools[1], true);
    w->now_ns = 0;
    expect(w, NEAR_B, MSGS);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_by_credit_the_one_with_most_of_it_gets_its_share),
        T(test_the_nearest_share_a_batch),
        T(test_half_of_the_credit_is_enough_and_less_is_not),
        T(test_one_without_anything_has_all_of_its_credit),
        T(test_where_nobody_has_half_credit_decides),
        T(test_who_is_full_is_passed_over),
        T(test_a_key_goes_before_nearness),
        T(test_in_place_on_the_payload_s_gpu_is_nearest),
        T(test_one_that_could_not_read_there_is_as_near_as_others_of_the_host),
        T(test_one_that_could_not_read_there_is_tried_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
