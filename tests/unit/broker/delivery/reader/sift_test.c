/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of filters: one shard, a publisher whose messages have hundreds of properties, a client
 * with expensive filters, and others beside it.
 */
#include "broker/delivery/reader/sift.h"

#include "broker/base/party.h"
#include "broker/shard/purse.h"
#include "broker/topic/topic.h"
#include "tests/support/quota.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/codec/props.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROPS 260u
#define MESSAGES 8u /* of a batch */
#define BATCHES 24u
#define CLIENTS 4u /* with eight expensive filters each */

struct world {
    struct shard_harness h;
    struct shard_client *publisher, *greedy[CLIENTS], *modest, *plain;
    uint32_t heavy, quiet;
    char tests[1024];
};

/* 24 tests, all but the last of which are false. */
static void write_filter(char *out, size_t size)
{
    size_t at = 0;
    for (unsigned i = 0; i < 23; i++) {
        at += (size_t)snprintf(out + at, size - at, "p%u = 'no' or ", PROPS - 1 - i);
    }
    (void)snprintf(out + at, size - at, "p0 = 'v'");
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, "memory = { host = { size = \"64M\"; segment = \"2M\"; }; };\n");
    write_filter(w->tests, sizeof(w->tests));
    w->heavy = harness_topic(&w->h, "heavy", 0);
    w->quiet = harness_topic(&w->h, "quiet", 0);
    w->publisher = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->publisher, 0, w->heavy, false);
    client_open_pub(w->publisher, 1, w->quiet, false);
    const struct amb_subscription_options options = {.slow = AMB_SLOW_BLOCK,
                                                     .slow_block_ns = INT64_MAX};
    for (unsigned i = 0; i < CLIENTS; i++) {
        w->greedy[i] = shard_client_create(&w->h, 0, NULL);
        w->greedy[i]->filter = w->tests;
        for (uint32_t handle = 0; handle < CLIENT_HANDLES; handle++) {
            client_subscribe(w->greedy[i], handle, w->heavy, &options);
        }
    }
    w->modest = shard_client_create(&w->h, 0, NULL);
    w->modest->filter = "p1 = 'v'";
    client_subscribe(w->modest, 0, w->quiet, &options);
    w->plain = shard_client_create(&w->h, 0, NULL);
    client_subscribe(w->plain, 0, w->quiet, &options);
    client_subscribe(w->plain, 1, w->heavy, &options);
    harness_settle(&w->h);
    client_want(w->publisher, 0, 2 << 20); /* The whole window at once. */
    harness_settle(&w->h);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_forget(&w->h);
    harness_fini(&w->h);
    free(w);
    return 0;
}

static void publish(struct world *w, uint32_t handle, uint32_t count, uint32_t props)
{
    struct client_pub *pub = &w->publisher->pubs[handle];
    struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                              .handle = handle,
                              .seq = ++pub->batches,
                              .count = count,
                              .data_len = (uint64_t)count * 16,
                              .meta_len = count * (uint32_t)sizeof(struct amb_record)};
    uint8_t *body = calloc(1, frame.data_len + frame.meta_len + (size_t)count * 4096);
    assert_non_null(body);
    struct amb_record *records = (struct amb_record *)(void *)(body + frame.data_len);
    uint8_t *blobs = body + frame.data_len + frame.meta_len;
    for (uint32_t i = 0; i < count; i++) {
        struct client_stamp stamp = {.handle = handle, .number = ++pub->messages};
        memcpy(body + (size_t)i * 16, &stamp, sizeof(stamp));
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, blobs, 4096);
        for (uint32_t p = 0; p < props; p++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "p%u", p);
            assert_int_equal(amb_props_add(&writer, name, "v", 1), AMB_OK);
        }
        records[i] = (struct amb_record){.len = 16, .props_len = (uint16_t)writer.len};
        blobs += amb_props_padded(records[i].props_len);
        frame.meta_len += amb_props_padded(records[i].props_len);
    }
    pub->bytes += frame.data_len + frame.meta_len;
    client_send_body(w->publisher, &frame, body);
    free(body);
}

static void turn(struct world *w)
{
    (void)harness_turn(&w->h, 0);
    for (unsigned i = 0; i < w->h.client_count; i++) {
        (void)shard_client_turn(w->h.clients[i]);
    }
}

static void test_filters_of_one_topic_do_not_keep_others_waiting(void **state)
{
    struct world *w = *state;
    const struct amb_sift *sift = &w->h.shards[0].sift;
    for (unsigned i = 0; i < BATCHES; i++) {
        publish(w, 0, MESSAGES, PROPS);
    }
    /* Without a budget the first turn would ask 8 filters of 4 clients about 512 messages. */
    unsigned turns = 0;
    do {
        turn(w);
        turns++;
    } while (w->h.shards[0].sift.waits == 0 && turns < 16);
    assert_true(sift->waits > 0);
    assert_true(w->greedy[CLIENTS - 1]->subs[7].msgs < (uint64_t)MESSAGES * BATCHES);
    /* A reader that comes now is served at once, with a filter too. */
    publish(w, 1, 1, 2);
    for (unsigned i = 0; i < 4; i++) {
        turn(w);
    }
    assert_int_equal(w->plain->subs[0].msgs, 1);
    assert_int_equal(w->modest->subs[0].msgs, 1);
    assert_false(amb_list_is_empty(&sift->waiting));
    assert_true(amb_shard_is_dirty(&w->h.shards[0])); /* It does not sleep on it. */
}

static void drain(struct world *w)
{
    for (unsigned round = 0; round < 512; round++) {
        harness_settle(&w->h);
        for (unsigned i = 0; i < CLIENTS; i++) {
            for (uint32_t handle = 0; handle < CLIENT_HANDLES; handle++) {
                client_release_all(w->greedy[i], handle);
            }
        }
        client_release_all(w->plain, 1);
    }
    harness_settle(&w->h);
}

static void test_in_the_end_all_get_what_is_theirs(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < BATCHES; i++) {
        publish(w, 0, MESSAGES, PROPS);
        if (i % 8 == 7) {
            drain(w);
        }
    }
    drain(w);
    for (unsigned i = 0; i < CLIENTS; i++) {
        for (uint32_t handle = 0; handle < CLIENT_HANDLES; handle++) {
            assert_int_equal(w->greedy[i]->subs[handle].msgs, (uint64_t)MESSAGES * BATCHES);
            assert_int_equal(w->greedy[i]->subs[handle].lost, 0);
        }
    }
    assert_int_equal(w->plain->subs[1].msgs, (uint64_t)MESSAGES * BATCHES);
    assert_true(amb_list_is_empty(&w->h.shards[0].sift.waiting));
}

static void test_who_goes_while_it_waits_leaves_nothing(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 8; i++) {
        publish(w, 0, MESSAGES, PROPS);
    }
    for (unsigned turns = 0; w->h.shards[0].sift.waits == 0 && turns < 16; turns++) {
        turn(w);
    }
    assert_true(w->h.shards[0].sift.waits > 0);
    client_unsubscribe(w->greedy[0], 3);
    client_close(w->greedy[1], false);
    client_die(w->greedy[1]);
    drain(w);
    assert_int_equal(w->greedy[0]->subs[2].msgs, 8 * (uint64_t)MESSAGES);
    assert_int_equal(w->greedy[2]->subs[0].msgs, 8 * (uint64_t)MESSAGES);
}

/* The users of two sessions, each with a limit. */
struct users {
    struct amb_parties parties;
    struct amb_tenants tenants;
    struct amb_tenant *tenant;
    struct amb_party *party[2];
    struct amb_purse *purse[2];
};

static void users_init(struct users *u, struct world *w, uint64_t limit)
{
    assert_int_equal(amb_parties_init(&u->parties, 2), AMB_OK);
    assert_int_equal(amb_tenants_init(&u->tenants), AMB_OK);
    assert_int_equal(amb_tenants_take(&u->tenants, "plant", &u->tenant), AMB_OK);
    for (unsigned i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(
            amb_parties_find(&u->parties, AMB_PARTY_NAMED | (i + 1), name, &u->party[i]), AMB_OK);
        amb_user_join(u->party[i]->user, u->tenant);
        quota_limit(&u->party[i]->user->account, AMB_QUOTA_FILTER_TESTS, limit);
        u->purse[i] = amb_purse_find(&w->h.shards[0], u->party[i]);
        assert_non_null(u->purse[i]);
        w->greedy[i]->session->sifter.purse = u->purse[i];
    }
}

static void users_fini(struct users *u, struct world *w)
{
    for (unsigned i = 0; i < 2; i++) {
        w->greedy[i]->session->sifter.purse = NULL;
        amb_purse_unref(&u->purse[i]);
        amb_party_unref(&u->party[i]);
    }
    amb_parties_fini(&u->parties);
    amb_tenants_fini(&u->tenants);
}

static uint64_t msgs_of(const struct shard_client *client)
{
    uint64_t msgs = 0;
    for (uint32_t handle = 0; handle < CLIENT_HANDLES; handle++) {
        msgs += client->subs[handle].msgs;
    }
    return msgs;
}

/* Its filters pause, and the filters of others, and its worker, go on. */
static void test_a_user_past_its_tests_pauses(void **state)
{
    struct world *w = *state;
    struct amb_sift *sift = &w->h.shards[0].sift;
    struct users u = {0};
    enum {
        LIMIT = 4096, /* a second; a message costs each filter about 50 */
        ALL = 8 * MESSAGES * CLIENT_HANDLES
    };
    users_init(&u, w, LIMIT);
    for (unsigned i = 0; i < 8; i++) {
        publish(w, 0, MESSAGES, PROPS);
    }
    harness_settle(&w->h);
    for (unsigned i = 0; i < 2; i++) {
        const struct amb_account *account = &u.party[i]->user->account;
        assert_true(msgs_of(w->greedy[i]) < ALL / 2);
        assert_int_equal(atomic_load(&account->refused[AMB_QUOTA_FILTER_TESTS]), 1);
    }
    assert_int_equal(msgs_of(w->greedy[2]), ALL);
    assert_true(amb_list_is_empty(&sift->waiting));
    assert_false(amb_list_is_empty(&sift->paused));
    assert_false(amb_shard_is_dirty(&w->h.shards[0])); /* It sleeps until then. */
    assert_true(amb_sift_due(&w->h.shards[0]) <= w->h.now_ns + AMB_SIFT_PAUSE_NS);
    uint64_t before = msgs_of(w->greedy[0]);
    int64_t begin_ns = w->h.now_ns;
    while (msgs_of(w->greedy[0]) < ALL && w->h.now_ns - begin_ns < INT64_C(60000000000)) {
        harness_pass(&w->h, AMB_SIFT_PAUSE_NS);
        harness_settle(&w->h);
        client_release_all(w->greedy[0], 0);
    }
    assert_int_equal(msgs_of(w->greedy[0]), ALL);
    double seconds = (double)(w->h.now_ns - begin_ns) / 1e9;
    uint64_t tests = atomic_load(&u.party[0]->user->account.passed[AMB_QUOTA_FILTER_TESTS]);
    assert_true(before < ALL && seconds > 0.7 * (double)(tests - LIMIT / 4) / LIMIT);
    assert_true(seconds < 1.5 * (double)tests / LIMIT);
    users_fini(&u, w);
    drain(w);
}

/* Nobody may be left in the line of those that are paused. */
static void test_one_that_goes_while_it_is_paused_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct users u = {0};
    users_init(&u, w, 64);
    publish(w, 0, MESSAGES, PROPS);
    harness_settle(&w->h);
    assert_false(amb_list_is_empty(&w->h.shards[0].sift.paused));
    for (unsigned i = 0; i < 2; i++) {
        client_close(w->greedy[i], false);
        client_die(w->greedy[i]);
    }
    drain(w);
    assert_true(amb_list_is_empty(&w->h.shards[0].sift.paused));
    for (unsigned i = 0; i < 2; i++) {
        amb_purse_unref(&u.purse[i]);
        amb_party_unref(&u.party[i]);
    }
    amb_parties_fini(&u.parties);
    amb_tenants_fini(&u.tenants);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_filters_of_one_topic_do_not_keep_others_waiting),
        T(test_in_the_end_all_get_what_is_theirs),
        T(test_who_goes_while_it_waits_leaves_nothing),
        T(test_a_user_past_its_tests_pauses),
        T(test_one_that_goes_while_it_is_paused_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
