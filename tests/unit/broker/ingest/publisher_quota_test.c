/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of publishers whose user has a quota. They are granted as far as it goes, and then they
 * wait, at nobody else's cost. The quota itself is purse_test.c.
 */
#include "broker/shard/entry.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_lease.h"
#include "tests/unit/broker/ingest/publisher_world.h"

struct owner {
    struct quota_user user;
    struct shard_client *client; /* its publisher has the handle 0 */
};

static void limit(struct owner *o, enum amb_quota row, uint64_t most)
{
    quota_limit(o->user.account, row, most);
}

static void owner_init(struct owner *o, struct world *w, enum amb_quota row, uint64_t most)
{
    *o = (struct owner){.client = shard_client_create(&w->h, 0, NULL)};
    quota_user_init(&o->user);
    limit(o, row, most);
    quota_user_owns(&o->user, o->client->session);
    client_open_pub(o->client, 0, w->topic, false);
    harness_settle(&w->h);
}

static void owner_fini(struct owner *o)
{
    client_close(o->client, false);
    harness_settle(o->client->harness);
    quota_user_fini(&o->user);
}

/* There is room for what it waits for, and none for the whole window. More segments would not help.
 */
static void test_a_window_past_the_quota_takes_no_more_memory(void **state)
{
    struct world *w = *state;
    const struct amb_bufpool *pool = &w->h.shards[0].memory.bufpool;
    struct owner o;
    owner_init(&o, w, AMB_QUOTA_HOST_BYTES, 200 * KIB);
    uint64_t before = pool->segment_bytes;
    client_want(o.client, 0, 100 * KIB);
    harness_settle(&w->h);
    assert_true(o.client->pubs[0].window >= 100 * KIB);
    assert_true(amb_account_used(o.user.account, AMB_QUOTA_HOST_BYTES) <= 200 * KIB);
    assert_int_equal(pool->segment_bytes, before);
    owner_fini(&o);
}

/* Past it the publisher waits. It goes on by itself when there is room again. */
static void test_a_publisher_past_the_quota_waits_until_there_is_room(void **state)
{
    struct world *w = *state;
    const struct amb_shard *shard = &w->h.shards[0];
    struct owner o;
    owner_init(&o, w, AMB_QUOTA_HOST_BYTES, 100 * KIB);
    client_want(o.client, 0, 120 * KIB);
    harness_settle(&w->h);
    assert_true(o.client->pubs[0].window < 120 * KIB);
    assert_true(amb_list_is_empty(&shard->windows.starving)); /* Nobody is behind it. */
    assert_false(amb_list_is_empty(&shard->windows.shut));
    client_want(w->p, 0, 70 * KIB);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, 256 * KIB);
    limit(&o, AMB_QUOTA_HOST_BYTES, 400 * KIB);
    harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
    harness_settle(&w->h);
    assert_true(o.client->pubs[0].window >= 120 * KIB);
    owner_fini(&o);
}

/* A user has very many publishers that wait. One turn asks some, and each has its turn soon. */
static void test_publishers_past_a_quota_wait_outside_of_turns(void **state)
{
    enum {
        MANY = 300,
        SOME = 64
    };
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *many[MANY];
    struct owner o;
    owner_init(&o, w, AMB_QUOTA_IN_MSGS, 0);
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = shard_client_create(&w->h, 0, NULL);
        many[i]->session->purse = amb_purse_find(shard, o.user.party);
        client_open_pub(many[i], 0, w->topic, false);
        client_want(many[i], 0, 1 * KIB);
    }
    harness_settle(&w->h);
    limit(&o, AMB_QUOTA_IN_MSGS, AMB_QUOTA_NONE);
    unsigned before = 0;
    for (unsigned turn = 0; before < MANY && turn < 1000; turn++) {
        w->h.now_ns += AMB_RECLAIM_PAUSE_NS;
        (void)harness_turn(&w->h, 0);
        unsigned open = 0;
        for (unsigned i = 0; i < MANY; i++) {
            open += amb_session_publisher(many[i]->session, 0)->window >= 1 * KIB;
        }
        assert_true(open <= before + SOME);
        assert_true(open > before);
        before = open;
    }
    assert_int_equal(before, MANY);
    harness_settle(&w->h);
    for (unsigned i = 0; i < MANY; i++) {
        client_close(many[i], false);
    }
    owner_fini(&o);
}

/* Leases are host bytes, too. If they took all, there would never be room for what comes in them.
 */
static void test_slots_come_back_where_leases_take_all_they_can(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    struct owner o;
    owner_init(&o, w, AMB_QUOTA_HOST_BYTES, 4096 * KIB);
    o.client->session->party = o.client->session->book.party = amb_party_ref(o.user.party);
    o.client->session->may_map = true;
    client_close_pub(o.client, 0);
    harness_settle(&w->h);
    assert_int_equal(amb_account_used(o.user.account, AMB_QUOTA_HOST_BYTES), 0);
    uint32_t slots = 64;
    while (client_lease_open(o.client, 64 * KIB, slots, &lease) != AMB_OK) {
        slots--;
        assert_true(slots > 0);
    }
    assert_int_equal(client_lease_map(o.client, &lease), AMB_OK);
    client_open_pub(o.client, 1, w->topic, false);
    harness_settle(&w->h);
    for (uint32_t i = 0; i < 100; i++) {
        client_commit(o.client, 1, &lease, i % slots, 1, 100);
        harness_settle(&w->h);
        harness_pass(&w->h, 2 * AMB_RECLAIM_PAUSE_NS);
        harness_settle(&w->h);
        assert_int_equal(o.client->freed, i + 1);
    }
    client_lease_close(o.client, &lease);
    client_lease_fini(&lease);
    owner_fini(&o);
}

/* A batch counts by all that it takes, the broker's entry too. So tiny ones pass the limit within
 * the window that is open. None of them is refused, and no window opens until they have gone. */
static void test_tiny_batches_pass_the_quota_by_what_was_open(void **state)
{
    struct world *w = *state;
    const struct amb_account *account;
    const uint64_t most = 100 * KIB, each = client_batch_bytes(1, 16);
    struct owner o;
    unsigned sent = 0;
    owner_init(&o, w, AMB_QUOTA_HOST_BYTES, most);
    account = o.user.account;
    client_subscribe(w->p, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 1});
    for (; client_may_send(o.client, 0, 1, 16); sent++) {
        assert_true(sent < 100000);
        client_send(o.client, 0, 1, 16);
        harness_settle(&w->h);
    }
    assert_int_equal(o.client->pubs[0].accepted, sent);
    assert_int_equal(o.client->settle_count, 0);
    uint64_t used = amb_account_used(account, AMB_QUOTA_HOST_BYTES);
    assert_true(used > most);
    assert_true(used <= most + 2 * AMB_PURSE_PIECE +
                            AMB_WINDOW_FIRST / each * (64 + sizeof(struct amb_entry)));
    uint64_t window = o.client->pubs[0].window;
    client_want(o.client, 0, window + each);
    harness_settle(&w->h);
    harness_pass(&w->h, 2 * AMB_RECLAIM_PAUSE_NS);
    harness_settle(&w->h);
    assert_int_equal(o.client->pubs[0].window, window);
    client_unsubscribe(w->p, 0);
    harness_settle(&w->h);
    harness_pass(&w->h, 2 * AMB_RECLAIM_PAUSE_NS);
    harness_settle(&w->h);
    assert_true(amb_account_used(account, AMB_QUOTA_HOST_BYTES) <= most);
    assert_true(o.client->pubs[0].window > window);
    owner_fini(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_window_past_the_quota_takes_no_more_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_publisher_past_the_quota_waits_until_there_is_room,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_publishers_past_a_quota_wait_outside_of_turns, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_tiny_batches_pass_the_quota_by_what_was_open, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_slots_come_back_where_leases_take_all_they_can, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
