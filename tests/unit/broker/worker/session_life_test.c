/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's life on its worker, arrow by arrow: it opens, is heard, closes, is cleared and
 * quarantined, and goes.
 */
#include "broker/base/party.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/purse.h"
#include "broker/worker/session_life.h"
#include "tests/support/shard/shard_pair.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static size_t lacking; /* There is no memory for an object of that size. */

void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    bool fails = lacking != 0 && size == lacking;
    return fails ? NULL : __real_calloc(count, size);
}

static int setup(void **state)
{
    struct shard_pair *w = shard_pair_begin(2, &(struct client_options){.may_map = true});
    client_open_pub(w->p, 0, w->topic, false);
    client_subscribe(w->s, 0, w->topic, NULL);
    harness_settle(&w->h);
    *state = w;
    return 0;
}

static void note_closed(void *arg, uint64_t quarantined_bytes)
{
    uint64_t *held = arg;
    *held = quarantined_bytes;
}

static struct amb_session *open_session(struct amb_shard *shard, uint32_t index,
                                        enum amb_link_kind link)
{
    struct amb_session_opening opening = {.link = link, .ring_size = 64 << 10};
    assert_int_equal(amb_session_open(shard, index, 1, &opening), AMB_OK);
    struct amb_session *session = amb_session_find(shard, index, 1);
    assert_non_null(session);
    assert_int_equal(session->state, AMB_SESSION_OPEN);
    if (link == AMB_LINK_RING) {
        assert_non_null(session->link);
        (void)close(opening.fds.memory);
        (void)close(opening.fds.bell);
    }
    return session;
}

static void test_a_session_opens_with_its_ring_and_goes_when_it_is_closed(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    uint64_t held = UINT64_MAX;
    amb_session_close(open_session(shard, 9, AMB_LINK_RING), false, note_closed, &held);
    assert_int_equal(held, 0);
    assert_null(amb_session_find(shard, 9, 1));
}

static void test_a_session_without_its_link_is_undone(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct amb_session_opening opening = {.link = AMB_LINK_SIM};
    assert_int_equal(amb_session_open(shard, 9, 1, &opening), AMB_ENOTSUP);
    assert_null(amb_session_find(shard, 9, 1));
    amb_session_close(open_session(shard, 9, AMB_LINK_STREAM), false, NULL, NULL);
}

/* It would be without its quotas, or have more than its part of the entries. */
static void test_a_session_that_nobody_is_charged_for_is_undone(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct amb_parties parties;
    struct amb_tenants tenants;
    struct amb_tenant *tenant;
    struct amb_party *party;
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_tenants_init(&tenants), AMB_OK);
    assert_int_equal(amb_tenants_take(&tenants, "plant", &tenant), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, AMB_PARTY_NAMED | 1, "1", &party), AMB_OK);
    amb_user_join(party->user, tenant);
    struct amb_session_opening opening = {.link = AMB_LINK_STREAM, .party = party};
    const size_t sizes[] = {sizeof(struct amb_entry_share), sizeof(struct amb_purse)};
    for (unsigned i = 0; i < 2; i++) {
        lacking = sizes[i];
        assert_int_equal(amb_session_open(shard, 9, 1, &opening), AMB_ENOMEM);
        lacking = 0;
        assert_null(amb_session_find(shard, 9, 1));
    }
    assert_int_equal(amb_session_open(shard, 9, 1, &opening), AMB_OK);
    assert_non_null(amb_session_find(shard, 9, 1)->purse);
    amb_session_close(amb_session_find(shard, 9, 1), false, NULL, NULL);
    assert_true(amb_list_is_empty(&shard->purses));
    /* As where there was no memory to note what its process holds: amb_quarantine_take. */
    assert_int_equal(amb_session_open(shard, 9, 1, &opening), AMB_OK);
    struct amb_session *session = amb_session_find(shard, 9, 1);
    amb_purse_map(session->purse, 100);
    session->mapped_bytes = 100;
    amb_session_close(session, true, NULL, NULL);
    assert_true(amb_list_is_empty(&shard->purses));
    assert_int_equal(amb_account_used(&party->user->account, AMB_QUOTA_MAPPED), 0);
    amb_party_unref(&party);
    amb_parties_fini(&parties);
    amb_tenants_fini(&tenants);
}

static void test_a_session_has_one_stream(void **state)
{
    struct shard_pair *w = *state;
    int pair[2], again[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, again), 0);
    struct amb_session *session = open_session(&w->h.shards[0], 9, AMB_LINK_STREAM);
    assert_null(session->link);
    assert_int_equal(amb_session_attach(session, pair[0], NULL), AMB_OK);
    assert_non_null(session->link);
    assert_int_equal(amb_session_attach(session, again[0], NULL), AMB_ESTATE);
    char byte;
    assert_int_equal(read(again[1], &byte, 1), 0); /* It is closed. */
    amb_session_close(session, false, NULL, NULL);
    assert_int_equal(read(pair[1], &byte, 1), 0);
    (void)close(pair[1]);
    (void)close(again[1]);
}

static void test_last_words_are_heard_in_the_order_of_the_ends(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct amb_session_closing first = {0}, second = {0};
    struct shard_client *c = shard_client_create(&w->h, 0, NULL);
    uint64_t before = amb_sessions_newest(shard);
    shard->hearing.budget = 0; /* This turn has read enough. */
    assert_false(amb_session_hear(w->p->session, &first));
    assert_false(amb_session_hear(c->session, &second));
    assert_int_equal(amb_sessions_newest(shard), before + 2);
    assert_true(amb_sessions_are_heard(shard, before));
    assert_false(amb_sessions_are_heard(shard, before + 1));
    shard->hearing.budget = AMB_SHARD_HEAR_TURN;
    assert_true(amb_session_hear(w->p->session, &first));
    assert_true(amb_sessions_are_heard(shard, before + 1));
    assert_false(amb_sessions_are_heard(shard, before + 2));
    assert_true(amb_session_hear(c->session, &second));
    assert_true(amb_sessions_are_heard(shard, before + 2));
}

static void test_a_lost_link_is_reported_once_and_the_session_waits_for_its_end(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *c = shard_client_create(&w->h, 0, NULL);
    client_open_pub(c, 0, w->topic, false);
    client_subscribe(c, 0, w->topic, NULL);
    client_send(c, 0, 1, 100);
    harness_settle(&w->h);
    amb_sim_break(c->session->link);
    harness_settle(&w->h);
    assert_int_equal(c->ended, 1);
    assert_int_equal(c->ended_why, AMB_ELOST);
    assert_false(amb_session_has_room(c->session));
    /* Messages that others publish meanwhile are for it too, and go with it. */
    struct shard_client *p = shard_client_create(&w->h, 0, NULL);
    client_open_pub(p, 0, w->topic, false);
    client_send(p, 0, 1, 100);
    harness_settle(&w->h);
    assert_true(harness_used(&w->h) > 0);
    client_close(c, true);
    harness_settle(&w->h);
    assert_null(c->session);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_closing_cancels_what_waits_in_the_link(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *slow =
        shard_client_create(&w->h, 0, &(struct client_options){.link_bytes_max = 1});
    client_subscribe(slow, 0, w->topic, NULL);
    for (unsigned i = 0; i < 20; i++) {
        client_send(w->p, 0, 1, 1000);
    }
    amb_link_flush(w->p->link);
    (void)harness_turn(&w->h, 0);
    assert_true(slow->session->link->queued > 10);
    assert_true(harness_used(&w->h) > 10000);
    client_close(slow, false);
    assert_int_equal(w->h.shards[0].outgoing.pool.used, 0);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_session_without_link_closes_too(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *c = shard_client_create(&w->h, 0, NULL);
    assert_true(amb_link_close(c->session->link));
    c->session->link = NULL; /* as one whose stream was never attached */
    client_subscribe(c, 0, w->topic, NULL);
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    assert_true(harness_used(&w->h) > 0); /* waits for the link */
    client_close(c, true);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_closing_gives_everything_back(void **state)
{
    struct shard_pair *w = *state;
    w->s->answers_offers = true;
    shard_pair_publish(w, 100);
    shard_pair_publish(w, 100);
    assert_true(harness_used(&w->h) > 0);
    client_close(w->s, false);
    assert_true(w->s->is_closed);
    assert_null(w->s->session);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_what_a_process_may_still_read_is_quarantined(void **state)
{
    struct shard_pair *w = *state;
    w->s->answers_offers = true;
    shard_pair_publish(w, 100); /* by copy */
    shard_pair_publish(w, 5000);
    shard_pair_publish(w, 6000);
    client_release(w->s, 0, 2);
    harness_settle(&w->h);
    assert_int_equal(shard_pair_frame_type(w, 3), AMB_FRAME_MAP);
    client_close(w->s, true);
    assert_true(w->s->is_quarantined);
    harness_settle(&w->h);
    uint64_t used = harness_used(&w->h);
    assert_in_range(used, 6000, 10000);
    /* Its whole allocation, and the entry itself. */
    assert_in_range(amb_stat_get(&w->h.shards[1].stats->quarantined_bytes), used, used + 1000);
    shard_pair_publish(w, 100);
    client_check_held(w->s, 0);
    client_die(w->s);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(amb_stat_get(&w->h.shards[1].stats->quarantined_bytes), 0);
}

static void test_a_session_that_holds_nothing_in_place_is_not_quarantined(void **state)
{
    struct shard_pair *w = *state;
    shard_pair_publish(w, 100); /* by copy, not given back */
    client_close(w->s, true);
    assert_false(w->s->is_quarantined);
    assert_null(w->s->session);
}

static void test_a_closed_session_holds_no_publisher_back(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *slow = shard_client_create(&w->h, 0, NULL);
    client_subscribe(slow, 0, w->topic,
                     &(struct amb_subscription_options){
                         .credit_msgs = 1, .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX});
    client_unsubscribe(w->s, 0);
    harness_settle(&w->h);
    while (client_may_send(w->p, 0, 1, 50000)) {
        shard_pair_publish(w, 50000);
        assert_true(w->p->pubs[0].batches < 200);
    }
    client_close(slow, false);
    harness_settle(&w->h);
    assert_true(client_may_send(w->p, 0, 1, 50000));
    assert_int_equal(harness_used(&w->h), 0);
}

/* Others have their turns meanwhile. */
static void test_a_session_with_very_much_out_goes_over_several_turns(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *c = shard_client_create(&w->h, 0, NULL);
    client_subscribe(c, 0, w->topic, NULL);
    client_subscribe(c, 1, w->topic, NULL);
    for (unsigned i = 0; i < AMB_SHARD_CLEAR_TURN; i++) {
        for (unsigned sub = 0; sub < 2; sub++) {
            assert_int_equal(
                amb_subscription_deliver(amb_session_subscription(c->session, sub), 1, 16, NULL),
                AMB_OK);
        }
    }
    struct shard_client *modest = shard_client_create(&w->h, 0, NULL);
    client_close(c, false);
    assert_false(c->is_closed);
    assert_true(amb_shard_is_dirty(shard)); /* Its worker does not sleep. */
    client_close(modest, false);
    (void)harness_turn(&w->h, 0);
    assert_false(c->is_closed);
    (void)harness_turn(&w->h, 0);
    assert_true(c->is_closed && modest->is_closed);
    assert_false(amb_shard_is_dirty(shard));
}

/* Control gives its index to another as soon as the answer is there. One that ended before may
 * still give deliveries up then. */
static void test_a_session_that_does_not_open_is_gone_at_once(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *c = shard_client_create(&w->h, 0, NULL);
    client_subscribe(c, 0, w->topic, NULL);
    for (unsigned i = 0; i <= AMB_SHARD_CLEAR_TURN; i++) {
        assert_int_equal(
            amb_subscription_deliver(amb_session_subscription(c->session, 0), 1, 16, NULL), AMB_OK);
    }
    shard->clearing.budget = AMB_SHARD_CLEAR_TURN;
    client_close(c, false);
    assert_false(c->is_closed);
    struct amb_session_opening opening = {.link = AMB_LINK_SIM};
    assert_int_equal(amb_session_open(shard, 9, 1, &opening), AMB_ENOTSUP);
    assert_null(amb_session_find(shard, 9, 1));
    struct amb_session_opening next = {.link = AMB_LINK_STREAM};
    assert_int_equal(amb_session_open(shard, 9, 3, &next), AMB_OK);
    amb_session_close(amb_session_find(shard, 9, 3), false, NULL, NULL);
    harness_settle(&w->h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
        T(test_a_session_opens_with_its_ring_and_goes_when_it_is_closed),
        T(test_a_session_without_its_link_is_undone),
        T(test_a_session_that_nobody_is_charged_for_is_undone),
        T(test_a_session_has_one_stream),
        T(test_last_words_are_heard_in_the_order_of_the_ends),
        T(test_a_lost_link_is_reported_once_and_the_session_waits_for_its_end),
        T(test_closing_cancels_what_waits_in_the_link),
        T(test_a_session_without_link_closes_too),
        T(test_closing_gives_everything_back),
        T(test_what_a_process_may_still_read_is_quarantined),
        T(test_a_session_that_holds_nothing_in_place_is_not_quarantined),
        T(test_a_closed_session_holds_no_publisher_back),
        T(test_a_session_with_very_much_out_goes_over_several_turns),
        T(test_a_session_that_does_not_open_is_gone_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
