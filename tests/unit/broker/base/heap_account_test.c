/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account itself, and the charges of a session on its worker: tables of deliveries, takes,
 * tallies. Everything is given back.
 */
#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/shard/tally.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)

static void test_a_charge_is_made_whole_or_not_at_all(void **state)
{
    (void)state;
    struct amb_heap_account account;
    amb_heap_init(&account, 100);
    assert_true(amb_heap_charge(&account, 60));
    assert_false(amb_heap_charge(&account, 41));
    assert_false(amb_heap_charge(&account, UINT64_MAX));
    assert_int_equal(account.bytes, 60);
    assert_int_equal(account.refused, 2);
    assert_true(amb_heap_charge(&account, 40));
    amb_heap_take(&account, 50); /* It is there already. */
    assert_false(amb_heap_has_room(&account, 0));
    amb_heap_give(&account, 150);
    assert_int_equal(account.bytes, 0);
    assert_int_equal(account.peak, 150);
}

static void test_both_shares_are_the_whole(void **state)
{
    (void)state;
    assert_int_equal(amb_heap_control_share(103) + amb_heap_worker_share(103), 103);
}

static void test_a_payer_is_charged_in_pieces(void **state)
{
    (void)state;
    struct amb_account tenant, user;
    struct amb_heap_account one, two;
    amb_account_init(&tenant, "tenant", NULL);
    amb_account_init(&user, "user", &tenant);
    amb_heap_init(&one, 1000 * KIB);
    amb_heap_init(&two, 1000 * KIB);
    amb_heap_take(&one, 10); /* Before it is known who pays. */
    amb_heap_pay(&one, &user);
    amb_heap_pay(&two, &user);
    assert_int_equal(amb_account_used(&user, AMB_QUOTA_HEAP), AMB_HEAP_PIECE);
    assert_true(amb_heap_charge(&one, 10 * AMB_HEAP_PIECE));
    assert_true(amb_heap_charge(&two, 1));
    assert_int_equal(amb_account_used(&tenant, AMB_QUOTA_HEAP), 12 * AMB_HEAP_PIECE);
    for (unsigned i = 0; i < 10; i++) {
        amb_heap_give(&one, AMB_HEAP_PIECE);
        assert_true(one.taken >= one.bytes && one.taken - one.bytes <= AMB_HEAP_SPARE);
    }
    assert_true(amb_account_used(&user, AMB_QUOTA_HEAP) <= 4 * AMB_HEAP_PIECE);
    amb_heap_leave(&one);
    amb_heap_leave(&one);
    amb_heap_leave(&two);
    assert_int_equal(amb_account_used(&user, AMB_QUOTA_HEAP), 0);
    assert_int_equal(amb_account_used(&tenant, AMB_QUOTA_HEAP), 0);
    amb_heap_give(&one, 10);
    assert_true(amb_heap_charge(&one, 1000 * KIB)); /* Its own limit is what is left. */
    assert_false(amb_heap_charge(&one, 1));
}

static void test_past_a_payers_limit_nothing_new_is_made(void **state)
{
    (void)state;
    struct amb_account user;
    struct amb_heap_account one, two;
    amb_account_init(&user, "user", NULL);
    amb_heap_init(&one, 1000 * KIB);
    amb_heap_init(&two, 1000 * KIB);
    amb_heap_pay(&one, &user);
    amb_heap_pay(&two, &user);
    quota_limit(&user, AMB_QUOTA_HEAP, 10 * AMB_HEAP_PIECE);
    assert_true(amb_heap_charge(&one, 6 * AMB_HEAP_PIECE));
    assert_true(amb_heap_charge(&two, 4 * AMB_HEAP_PIECE));
    assert_false(amb_heap_charge(&one, 1));
    assert_false(amb_heap_charge(&two, 1));
    assert_false(amb_heap_has_room(&two, 1));
    assert_true(amb_heap_has_room(&two, 0));
    assert_int_equal(user.refused[AMB_QUOTA_HEAP], 2);
    assert_int_equal(one.refused, 1);
    assert_true(amb_heap_go_on(&one, 2 * AMB_HEAP_PIECE)); /* It keeps a session going. */
    assert_int_equal(amb_account_used(&user, AMB_QUOTA_HEAP), 12 * AMB_HEAP_PIECE);
    assert_false(amb_heap_go_on(&one, 1000 * KIB));
    assert_int_equal(user.refused[AMB_QUOTA_HEAP], 2);
    amb_heap_give(&one, 8 * AMB_HEAP_PIECE);
    assert_true(amb_heap_charge(&two, 4 * AMB_HEAP_PIECE));
    quota_limit(&user, AMB_QUOTA_HEAP, AMB_QUOTA_NONE);
    assert_true(amb_heap_charge(&two, 20 * AMB_HEAP_PIECE));
    amb_heap_leave(&one);
    amb_heap_leave(&two);
    assert_int_equal(amb_account_used(&user, AMB_QUOTA_HEAP), 0);
}

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *p, *reader;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1,
                 "memory = { host = { size = \"64M\"; segment = \"2M\"; }; };\n"
                 "topics = ( { match = \">\"; max_bytes = \"16M\"; slow = \"drop-oldest\"; } );\n");
    w->topic = harness_topic(&w->h, "t", 0);
    w->p = shard_client_create(&w->h, 0, NULL);
    w->reader = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->p, 0, w->topic, false);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void send(struct world *w, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, 1, 64);
        harness_settle(&w->h);
    }
}

/* Its credit is then what there is room for; no other session has less, and none is ended. */
static void test_a_table_of_deliveries_stops_at_the_limit(void **state)
{
    struct world *w = *state;
    struct shard_client *other = shard_client_create(&w->h, 0, NULL);
    client_subscribe(w->reader, 0, w->topic, NULL);
    client_subscribe(other, 0, w->topic, NULL);
    struct amb_heap_account *heap = &w->reader->session->heap;
    heap->limit = heap->bytes + 4 * KIB; /* A table of 32 may be one of 128. */
    send(w, 300);
    assert_int_equal(w->reader->subs[0].msgs, 128);
    assert_int_equal(other->subs[0].msgs, 300);
    assert_true(heap->refused > 0);
    assert_true(heap->bytes <= heap->limit);
    assert_int_equal(w->reader->ended + other->ended, 0);
    client_release(w->reader, 0, 1);
    harness_settle(&w->h);
    assert_int_equal(w->reader->subs[0].msgs, 129);
    client_drain(w->reader, 0);
    assert_int_equal(w->reader->subs[0].msgs + w->reader->subs[0].lost, 300);
}

/* Heap that one subscription does not use any more, another one of the session may have. */
static void test_tables_that_are_not_used_make_room(void **state)
{
    struct world *w = *state;
    client_subscribe(w->reader, 0, w->topic, NULL);
    struct amb_heap_account *heap = &w->reader->session->heap;
    heap->limit = heap->bytes + 5 * KIB;
    send(w, 100);
    client_drain(w->reader, 0);
    client_unsubscribe(w->reader, 0);
    client_subscribe(w->reader, 1, w->topic, NULL);
    send(w, 100);
    assert_int_equal(w->reader->subs[1].msgs, 100);
    uint32_t quiet = harness_topic(&w->h, "quiet", 0);
    client_drain(w->reader, 1);
    client_subscribe(w->reader, 2, quiet, NULL);
    client_open_pub(w->p, 1, quiet, false);
    harness_pass(&w->h, AMB_NS_PER_SEC);
    for (unsigned i = 0; i < 100; i++) {
        client_send(w->p, 1, 1, 64);
        harness_settle(&w->h);
    }
    assert_int_equal(w->reader->subs[2].msgs, 100);
    client_drain(w->reader, 2);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    struct world *w = *state;
    struct amb_session *session = w->p->session;
    session->heap.limit = session->heap.bytes;
    struct amb_publisher *publisher;
    assert_int_equal(
        amb_publisher_create(session, 5, w->topic, 0, false, &amb_trust_group_main, &publisher),
        AMB_ELIMIT);
    struct amb_subscription *sub;
    const struct amb_subscription_options options = {0};
    assert_int_equal(amb_subscription_create(session, 5, 77, &options, &sub), AMB_ELIMIT);
    assert_int_equal(session->heap.refused, 2);
    assert_int_equal(session->heap.bytes, session->heap.limit);
}

/* Tallies that only a reader keeps, which does not give back what it was given. */
static void test_tallies_are_charged_to_who_keeps_them(void **state)
{
    struct world *w = *state;
    struct amb_publisher *publisher = amb_session_publisher(w->p->session, 0);
    publisher->confirms = publisher->asks = true;
    client_subscribe(w->reader, 0, w->topic, NULL);
    struct amb_heap_account *heap = &w->reader->session->heap;
    heap->limit = heap->bytes + 10 * sizeof(struct amb_tally);
    send(w, 30);
    assert_int_equal(w->reader->session->tallies, 10);
    assert_int_equal(w->reader->subs[0].msgs, 10);
    client_drain(w->reader, 0);
    assert_int_equal(w->reader->subs[0].msgs + w->reader->subs[0].lost, 30);
    assert_int_equal(w->reader->session->tallies, 0);
}

static void test_everything_is_given_back(void **state)
{
    struct world *w = *state;
    send(w, 1);
    client_subscribe(w->reader, 0, w->topic, NULL);
    client_unsubscribe(w->reader, 0); /* The table of what handles once were stays. */
    harness_settle(&w->h);
    uint64_t before = w->reader->session->heap.bytes, peak = 0;
    for (unsigned i = 0; i < 3; i++) {
        client_subscribe(w->reader, 0, w->topic, NULL);
        client_open_pub(w->reader, 1, w->topic, false);
        send(w, 70);
        peak = w->reader->session->heap.bytes;
        client_drain(w->reader, 0);
        client_unsubscribe(w->reader, 0);
        client_close_pub(w->reader, 1);
        harness_settle(&w->h);
    }
    assert_true(peak > before + sizeof(struct amb_publisher) + 128 * sizeof(struct amb_delivery));
    assert_int_equal(w->reader->session->heap.bytes, before);
    assert_int_equal(w->reader->session->heap.peak, peak);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_charge_is_made_whole_or_not_at_all),
        cmocka_unit_test(test_both_shares_are_the_whole),
        cmocka_unit_test(test_a_payer_is_charged_in_pieces),
        cmocka_unit_test(test_past_a_payers_limit_nothing_new_is_made),
        T(test_a_table_of_deliveries_stops_at_the_limit),
        T(test_tables_that_are_not_used_make_room),
        T(test_what_does_not_fit_is_refused),
        T(test_tallies_are_charged_to_who_keeps_them),
        T(test_everything_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
