/* SPDX-License-Identifier: Apache-2.0 */
/* Words that wait for the next event. */
#include "wire/base/rhythm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define US AMB_NS_PER_US
#define MS AMB_NS_PER_MS

/* `count` events, each so long after the one before. Returns how many words left with them. */
static uint32_t beat(struct amb_rhythm *rhythm, int64_t *now_ns, uint32_t count, int64_t gap_ns)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        *now_ns += gap_ns;
        left += !amb_rhythm_waits(rhythm, *now_ns);
    }
    return left;
}

static void a_steady_flow_tells_once_a_millisecond(void **state)
{
    (void)state;
    struct amb_rhythm rhythm = {0};
    int64_t now = 1000 * MS;
    /* The first comes after nothing. */
    assert_int_equal(beat(&rhythm, &now, AMB_RHYTHM_MIN, 100 * US), AMB_RHYTHM_MIN);
    uint32_t left = beat(&rhythm, &now, 10000, 100 * US);
    assert_in_range(left, 800, 1000);
}

static void a_slow_flow_tells_each_time(void **state)
{
    (void)state;
    struct amb_rhythm rhythm = {0};
    int64_t now = 1000 * MS;
    assert_int_equal(beat(&rhythm, &now, 1000, AMB_RHYTHM_SOON_NS), 1000);
}

/* The other end waits for the word: each wait is ended by a timer. */
static void where_waits_are_in_vain_they_become_rare(void **state)
{
    (void)state;
    struct amb_rhythm rhythm = {0};
    int64_t now = 1000 * MS;
    uint32_t timers = 0;
    for (int i = 0; i < 1000000; i++) {
        now += 50 * US;
        if (amb_rhythm_waits(&rhythm, now)) {
            now += 8 * MS;
            amb_rhythm_left(&rhythm, now);
            timers++;
        }
    }
    assert_in_range(timers, 10, 13 + 1000000 / AMB_RHYTHM_MAX);
    assert_int_equal(rhythm.needed, AMB_RHYTHM_MAX);
}

/* A flow that stumbles is no end that waits: the word had not left when the next event came. */
static void a_late_event_costs_a_few_words_alone(void **state)
{
    (void)state;
    struct amb_rhythm rhythm = {0};
    int64_t now = 1000 * MS;
    (void)beat(&rhythm, &now, 100, 100 * US);
    for (int i = 0; i < 100; i++) {
        now += 2 * MS;
        assert_false(amb_rhythm_waits(&rhythm, now));
        assert_int_equal(beat(&rhythm, &now, AMB_RHYTHM_MIN - 1, 100 * US), AMB_RHYTHM_MIN - 1);
        assert_int_equal(beat(&rhythm, &now, 5, 100 * US), 0);
    }
}

static void a_flow_that_goes_well_is_trusted_again(void **state)
{
    (void)state;
    struct amb_rhythm rhythm = {0};
    int64_t now = 1000 * MS;
    while (rhythm.needed < 4 * AMB_RHYTHM_MIN) {
        now += 50 * US;
        if (amb_rhythm_waits(&rhythm, now)) {
            now += 8 * MS;
            amb_rhythm_left(&rhythm, now);
        }
    }
    (void)beat(&rhythm, &now, 3 * AMB_RHYTHM_GOOD, 50 * US);
    assert_int_equal(rhythm.needed, AMB_RHYTHM_MIN);
}

/* Something else takes it along while events come: that is no wait in vain. */
static void a_word_that_leaves_with_another_is_not_missed(void **state)
{
    (void)state;
    struct amb_rhythm rhythm = {0};
    int64_t now = 1000 * MS;
    (void)beat(&rhythm, &now, AMB_RHYTHM_MIN + 2, 100 * US);
    assert_int_not_equal(rhythm.since_ns, 0);
    amb_rhythm_left(&rhythm, now + 50 * US);
    assert_int_equal(rhythm.since_ns, 0);
    assert_true(amb_rhythm_waits(&rhythm, now + 100 * US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_flow_tells_once_a_millisecond),
        cmocka_unit_test(a_slow_flow_tells_each_time),
        cmocka_unit_test(where_waits_are_in_vain_they_become_rare),
        cmocka_unit_test(a_late_event_costs_a_few_words_alone),
        cmocka_unit_test(a_flow_that_goes_well_is_trusted_again),
        cmocka_unit_test(a_word_that_leaves_with_another_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
