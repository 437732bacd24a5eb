/* SPDX-License-Identifier: Apache-2.0 */
/* How long a thread yields before it sleeps. */
#include "wire/base/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define US AMB_NS_PER_US
#define MS AMB_NS_PER_MS
#define SEC AMB_NS_PER_SEC

static void yielding_is_given_up_when_it_does_not_help(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    assert_int_equal(spin.budget_ns, 200 * US);
    for (int i = 0; i < 10; i++) {
        amb_spin_note(&spin, 1 * US, 10000 * US);
    }
    assert_int_equal(spin.budget_ns, 0);
    for (int i = 0; i < 20; i++) {
        amb_spin_note(&spin, 1 * US, 30 * US);
    }
    assert_int_equal(spin.budget_ns, 200 * US);
}

/* A short message every 100 us: three quarters of a core would go into yields. */
static void between_regular_messages_a_thread_sleeps(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    for (int i = 0; i < 10; i++) {
        amb_spin_note(&spin, 3 * US, 97 * US);
    }
    assert_int_equal(spin.budget_ns, 0);
    /* As long a wait beside copies of as much time. */
    for (int i = 0; i < 10; i++) {
        amb_spin_note(&spin, 40 * US, 97 * US);
    }
    assert_int_equal(spin.budget_ns, 200 * US);
    /* Beyond the bound the price is not asked. */
    for (int i = 0; i < 10; i++) {
        amb_spin_note(&spin, 400 * US, 260 * US);
    }
    assert_int_equal(spin.budget_ns, 0);
}

/* A wait of 35 us takes 47 where it sleeps. */
static void a_sleep_does_not_make_itself_last(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    amb_spin_note(&spin, 3 * US, 1 * MS);
    assert_int_equal(spin.budget_ns, 0);
    for (int i = 0; i < 30; i++) {
        amb_spin_note(&spin, 3 * US, spin.budget_ns == 0 ? 47 * US : 35 * US);
    }
    assert_int_equal(spin.budget_ns, 200 * US);
}

static void a_higher_bound_takes_longer_waits(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 1 * MS);
    for (int i = 0; i < 20; i++) {
        amb_spin_note(&spin, 3 * US, 150 * US);
    }
    assert_int_equal(spin.budget_ns, 1 * MS);
    amb_spin_init(&spin, 20 * US);
    for (int i = 0; i < 20; i++) {
        amb_spin_note(&spin, 3 * US, 15 * US);
    }
    assert_int_equal(spin.budget_ns, 20 * US);
}

static void on_one_core_nobody_yields(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 0);
    amb_spin_note(&spin, 0, 0);
    amb_spin_note(&spin, 1 * US, 1000 * US);
    assert_int_equal(spin.budget_ns, 0);
}

/* A yield that came back so late, at *now_ns then. */
static void yield(struct amb_spin *spin, int64_t *now_ns, int64_t late_ns)
{
    int64_t due_ns = *now_ns;
    *now_ns += late_ns;
    amb_spin_yielded(spin, due_ns, *now_ns);
}

/* Yields in vain until nothing more is to be won; returns how many were late. */
static unsigned spin_beside_work(struct amb_spin *spin, int64_t *now_ns)
{
    unsigned late = 0;
    int64_t idle_since_ns = *now_ns;
    while (amb_spin_pays(spin, *now_ns - idle_since_ns, *now_ns)) {
        yield(spin, now_ns, 3 * MS);
        idle_since_ns = *now_ns; /* The message was there meanwhile: another wait begins. */
        late++;
    }
    return late;
}

static void a_free_core_is_yielded_for_the_whole_budget(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS, begin_ns = now_ns;
    while (amb_spin_pays(&spin, now_ns - begin_ns, now_ns)) {
        yield(&spin, &now_ns, 1 * US);
    }
    assert_int_equal(now_ns - begin_ns, 200 * US);
}

/* Others that keep a thread busy are back within a slice, and hardly ever later. */
static void peers_that_share_the_core_do_not_count(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS;
    for (int i = 0; i < 1000; i++) {
        yield(&spin, &now_ns, i % 16 == 0 ? 3 * MS : 700 * US);
        assert_true(amb_spin_pays(&spin, 0, now_ns));
    }
}

/* Beside work some yields are in time, too. */
static void two_late_yields_of_five_tell(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS;
    unsigned yields = 0;
    for (; amb_spin_pays(&spin, 0, now_ns); yields++) {
        yield(&spin, &now_ns, yields % 5 < 2 ? 3 * MS : 1 * US);
    }
    assert_in_range(yields, 5, 25);
}

static void beside_work_a_thread_sleeps_at_once(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS, end_ns = now_ns + 60 * SEC;
    unsigned late = 0;
    while (now_ns < end_ns) {
        late += spin_beside_work(&spin, &now_ns);
        now_ns += 20 * US; /* asleep */
    }
    /* Five to learn it, nine trials while the pauses double, then one every four seconds. */
    assert_in_range(late, 22, 32);
}

static void a_core_that_is_free_again_is_found_out(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS;
    for (int i = 0; i < 100000; i++) {
        (void)spin_beside_work(&spin, &now_ns);
        now_ns += 100 * US;
    }
    int64_t free_ns = now_ns;
    while (!amb_spin_pays(&spin, 0, now_ns)) {
        now_ns += 100 * US;
    }
    assert_true(now_ns - free_ns <= AMB_SPIN_CROWD_MAX_NS);
    for (int i = 0; i < 150; i++) {
        assert_true(amb_spin_pays(&spin, 0, now_ns));
        yield(&spin, &now_ns, 1 * US);
    }
    /* It is trusted as at first: accidents change nothing, and the next while is short. */
    assert_int_equal(spin.late, 0);
    while (amb_spin_pays(&spin, 0, now_ns)) {
        yield(&spin, &now_ns, 3 * MS);
    }
    assert_int_equal(spin.crowd_ns, AMB_SPIN_CROWD_MIN_NS);
}

/* One wait: a yield that others use for lent_ns each, until count of them have passed. */
static void wait_in_yields(struct amb_spin *spin, int64_t *now_ns, unsigned count, int64_t lent_ns)
{
    int64_t begin_ns = *now_ns;
    for (unsigned i = 0; i < count && amb_spin_pays(spin, *now_ns - begin_ns, *now_ns); i++) {
        yield(spin, now_ns, lent_ns);
    }
    int64_t slept_ns = count * lent_ns - (*now_ns - begin_ns);
    *now_ns += slept_ns > 0 ? slept_ns : 0;
    amb_spin_note(spin, 2 * US, *now_ns - begin_ns);
}

/* Sixteen readers on two cores: a wait is long, and nearly all of it is the others' work. */
static void time_that_others_use_is_no_price(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS;
    for (int i = 0; i < 100; i++) {
        wait_in_yields(&spin, &now_ns, 4, 150 * US);
        assert_int_equal(spin.budget_ns, 200 * US);
    }
    /* As long on a core of its own. */
    for (int i = 0; i < 100; i++) {
        wait_in_yields(&spin, &now_ns, 600, 1 * US);
    }
    assert_int_equal(spin.budget_ns, 0);
    assert_true(amb_spin_rests(&spin, now_ns));
    /* The one yield before each sleep finds others out. */
    for (int i = 0; i < 20; i++) {
        wait_in_yields(&spin, &now_ns, 1, 150 * US);
    }
    assert_int_equal(spin.budget_ns, 200 * US);
    assert_false(amb_spin_rests(&spin, now_ns));
}

/* Such a wait goes on behind the work. The time that was lent before is no part of the next idle
 * time, nor of the price of the wait. */
static void work_in_a_wait_begins_a_new_idle_time(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    int64_t now_ns = 5 * MS, begin_ns = now_ns;
    for (int i = 0; i < 50; i++) {
        yield(&spin, &now_ns, 500 * US);
    }
    amb_spin_worked(&spin);
    int64_t idle_since_ns = now_ns;
    while (amb_spin_pays(&spin, now_ns - idle_since_ns, now_ns)) {
        yield(&spin, &now_ns, 1 * US);
    }
    assert_int_equal(now_ns - idle_since_ns, 200 * US);
    amb_spin_note(&spin, 2 * US, now_ns - begin_ns);
    assert_int_equal(spin.gap_ns, (200 * US + 50 * AMB_SPIN_CALL_NS) / 4);
}

static void before_a_sleep_there_is_one_yield(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    for (int i = 0; i < 10; i++) {
        amb_spin_note(&spin, 1 * US, 10 * MS);
    }
    int64_t now_ns = 5 * MS;
    assert_true(amb_spin_pays(&spin, 0, now_ns));
    assert_false(amb_spin_pays(&spin, 1, now_ns));
    amb_spin_init(&spin, 0); /* server.spin = 0: none at all */
    assert_false(amb_spin_pays(&spin, 0, now_ns));
}

static void a_pause_is_not_taken_for_work_of_others(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 10 * MS);
    int64_t now_ns = 5 * MS;
    for (int i = 0; i < 10; i++) {
        int64_t due_ns = now_ns + 2 * MS; /* a pause of our own choice */
        now_ns = due_ns + 1 * US;
        amb_spin_yielded(&spin, due_ns, now_ns);
    }
    assert_true(amb_spin_pays(&spin, 0, now_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yielding_is_given_up_when_it_does_not_help),
        cmocka_unit_test(between_regular_messages_a_thread_sleeps),
        cmocka_unit_test(a_sleep_does_not_make_itself_last),
        cmocka_unit_test(a_higher_bound_takes_longer_waits),
        cmocka_unit_test(on_one_core_nobody_yields),
        cmocka_unit_test(a_free_core_is_yielded_for_the_whole_budget),
        cmocka_unit_test(peers_that_share_the_core_do_not_count),
        cmocka_unit_test(two_late_yields_of_five_tell),
        cmocka_unit_test(beside_work_a_thread_sleeps_at_once),
        cmocka_unit_test(a_core_that_is_free_again_is_found_out),
        cmocka_unit_test(time_that_others_use_is_no_price),
        cmocka_unit_test(work_in_a_wait_begins_a_new_idle_time),
        cmocka_unit_test(before_a_sleep_there_is_one_yield),
        cmocka_unit_test(a_pause_is_not_taken_for_work_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
