/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries that the process of an ended client may still read, and how they are given back.
 */
#include "broker/session/quarantine.h"
#include "broker/session/session.h"
#include "tests/support/shard/shard_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct shard_pair *w =
        shard_pair_begin(1, &(struct client_options){.may_map = true, .answers_offers = true});
    client_open_pub(w->p, 0, w->topic, false);
    client_subscribe(w->s, 0, w->topic, NULL);
    *state = w;
    return 0;
}

static void publish(struct shard_pair *w, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, 1, 16);
        harness_settle(&w->h);
    }
}

/* The deliveries that a process held go a part at a time once it is gone. */
static void test_what_was_held_is_given_back_in_slices(void **state)
{
    struct shard_pair *w = *state;
    publish(w, 20); /* The first ones by copy: the segment is not mapped yet. */
    client_close(w->s, true);
    harness_settle(&w->h);
    assert_true(w->s->is_quarantined);
    unsigned slices = 1;
    while (!amb_quarantine_release(w->s->session, 4)) {
        assert_true(w->s->session->mapped_bytes > 0);
        slices++;
    }
    assert_in_range(slices, 4, 6);
    assert_int_equal(harness_used(&w->h), 0);
    client_die(w->s);
}

static void test_its_bytes_are_those_that_are_counted(void **state)
{
    struct shard_pair *w = *state;
    _Atomic uint64_t *counted = &w->h.shards[0].stats->quarantined_bytes;
    publish(w, 10);
    assert_int_equal(amb_quarantine_bytes(w->s->session), 0); /* It is open. */
    client_close(w->s, true);
    assert_true(w->s->is_quarantined);
    assert_true(amb_stat_get(counted) > 0);
    assert_int_equal(amb_quarantine_bytes(w->s->session), amb_stat_get(counted));
    assert_false(amb_quarantine_release(w->s->session, 1));
    assert_true(amb_stat_get(counted) > 0);
    assert_true(amb_quarantine_release(w->s->session, 100));
    assert_int_equal(amb_quarantine_bytes(w->s->session), 0);
    assert_int_equal(amb_stat_get(counted), 0);
    client_die(w->s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
        T(test_what_was_held_is_given_back_in_slices),
        T(test_its_bytes_are_those_that_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
