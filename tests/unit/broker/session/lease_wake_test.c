/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher waits for a slot of a lease, and a worker that sleeps has to hear of the release. The
 * publisher is on shard 0, and its reader on shard 1.
 */
#include "tests/support/shard/shard_lease.h"
#include "tests/support/shard/shard_trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n";

static int setup(void **state)
{
    return shard_trio_setup(state, config);
}

static void begin(struct shard_trio *w, uint64_t slot, uint32_t slots, struct client_lease *lease)
{
    uint32_t topic = harness_topic(&w->h, "a", 0);
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->near, 0, topic, NULL);
    w->p->session->may_map = true;
    assert_int_equal(client_lease_open(w->p, slot, slots, lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, lease), AMB_OK);
    harness_settle(&w->h);
}

static void commit(struct shard_trio *w, const struct client_lease *lease, uint32_t slot)
{
    client_commit(w->p, 0, lease, slot, 1, 100);
    harness_settle(&w->h);
}

static void end(struct shard_trio *w, struct client_lease *lease)
{
    client_drain(w->near, 0);
    assert_int_equal(w->near->session->mapped_parts, 0);
    assert_false(amb_session_wants_flow(w->near->session));
    client_lease_close(w->p, lease);
    harness_settle(&w->h);
    client_lease_fini(lease);
}

static void one_of_few_slots_is_waited_for(void **state)
{
    struct shard_trio *w = *state;
    struct client_lease lease;
    begin(w, 65536, 32, &lease);
    commit(w, &lease, 0); /* It comes by copy, and has the reader map the segment. */
    client_drain(w->near, 0);
    assert_false(amb_session_wants_flow(w->near->session));
    commit(w, &lease, 1);
    assert_true(amb_session_wants_flow(w->near->session));
    end(w, &lease);
}

/* Else each release of a small message would wake the worker. */
static void a_few_of_many_slots_are_not(void **state)
{
    struct shard_trio *w = *state;
    struct client_lease lease;
    begin(w, 4096, 512, &lease);
    commit(w, &lease, 0);
    client_drain(w->near, 0);
    for (uint32_t i = 1; i <= 16; i++) {
        commit(w, &lease, i);
        assert_int_equal(amb_session_wants_flow(w->near->session), i == 16);
    }
    end(w, &lease);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, shard_trio_teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_of_few_slots_is_waited_for),
        TEST(a_few_of_many_slots_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
