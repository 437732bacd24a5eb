/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/control: sessions are spread over workers, their names are never used for two at once, and
 * the thread serves everybody however much one client asks.
 */
#include "broker/control/clients/control.h"

#include "tests/support/door/door_harness.h"
#include "wire/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t worker_of(const struct door *door, struct door_client *client)
{
    door_connect_unix(door, client);
    door_send_hello(client, "");
    amb_control_free(door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(client, NULL);
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_WELCOME);
    uint32_t worker = message->welcome->worker;
    amb_control_free(message);
    return worker;
}

static void test_clients_are_spread_over_the_workers(void **state)
{
    (void)state;
    static const char *const options[] = {"server.workers=4", "memory.host.size=32M", NULL};
    struct door door;
    struct door_client clients[12];
    unsigned of_worker[4] = {0};
    door_open(&door, options);
    for (size_t i = 0; i < 12; i++) {
        uint32_t worker = worker_of(&door, &clients[i]);
        assert_true(worker < 4);
        of_worker[worker]++;
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(of_worker[i], 3);
    }
    for (size_t i = 0; i < 12; i++) {
        door_disconnect(&clients[i]);
    }
    door_close(&door);
}

static void test_sessions_have_a_name_that_was_never_used(void **state)
{
    (void)state;
    enum {
        ROUNDS = 30
    };
    struct door door;
    struct door_client client;
    struct door_session seen[ROUNDS];
    door_open(&door, NULL);
    for (size_t i = 0; i < ROUNDS; i++) {
        door_connect_unix(&door, &client);
        door_login(&client, "", &seen[i]);
        door_disconnect(&client);
        assert_int_equal(seen[i].generation % 2, 1);
        for (size_t j = 0; j < i; j++) {
            assert_false(seen[i].session == seen[j].session &&
                         seen[i].generation == seen[j].generation);
            assert_true(seen[i].secret != seen[j].secret);
            assert_true(seen[i].client_id != seen[j].client_id);
        }
    }
    door_close(&door);
}

static void test_indices_are_taken_from_the_emptiest_shard_and_used_again(void **state)
{
    (void)state;
    struct amb_session_indices indices[2] = {{0}};
    struct amb_control control = {.indices = indices, .shard_count = 2};
    struct amb_session_id ids[40], again;
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(amb_control_session_take(&control, &ids[i]), AMB_OK);
        assert_int_equal(ids[i].shard, i % 2);
        assert_int_equal(ids[i].index, i / 2);
        assert_int_equal(ids[i].generation, 1);
    }
    assert_int_equal(amb_control_sessions(&control), 40);
    amb_control_session_give(&control, &ids[7]);
    amb_control_session_give(&control, &ids[9]);
    assert_int_equal(amb_control_sessions(&control), 38);
    assert_int_equal(amb_control_session_take(&control, &again), AMB_OK);
    assert_int_equal(again.shard, 1);
    assert_int_equal(again.index, ids[7].index);
    assert_int_equal(again.generation, 3);
    for (unsigned i = 0; i < 2; i++) {
        free(indices[i].generations);
        free(indices[i].clients);
    }
}

static void test_indices_come_to_an_end(void **state)
{
    (void)state;
    struct amb_session_indices indices = {0};
    struct amb_control control = {.indices = &indices, .shard_count = 1};
    struct amb_session_id id;
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(amb_control_session_take(&control, &id), AMB_OK);
    }
    free(indices.generations); /* The rest is taken without searching 65,536 times. */
    indices.count = 65536;
    indices.generations = malloc(indices.count * sizeof(uint32_t));
    assert_non_null(indices.generations);
    for (uint32_t i = 0; i < indices.count; i++) {
        indices.generations[i] = 1;
    }
    assert_int_equal(amb_control_session_take(&control, &id), AMB_ELIMIT);
    free(indices.generations);
    free(indices.clients);
}

static void test_one_client_s_heap_of_requests_does_not_keep_others_waiting(void **state)
{
    (void)state;
    enum {
        PINGS = 20000,
        FRAME = 11
    };
    static const uint8_t frame[FRAME] = {'A', 'M', 'B', 1, 3, 0, 0, 0, 0x82, 0x01, 0};
    struct door door;
    struct door_client greedy, modest;
    door_open(&door, NULL);
    door_login_unix(&door, &greedy);
    door_login_unix(&door, &modest);
    uint8_t *heap = malloc((size_t)PINGS * FRAME);
    assert_non_null(heap);
    for (size_t i = 0; i < PINGS; i++) {
        memcpy(heap + i * FRAME, frame, FRAME);
    }
    int64_t slowest_ns = 0;
    for (int i = 0; i < 20; i++) {
        door_send_bytes(&greedy, heap, (size_t)PINGS / 20 * FRAME);
        int64_t begin_ns = amb_clock_monotonic_ns();
        door_send_ping(&modest, i);
        amb_control_free(door_expect(&modest, AMB__CONTROL__CONTROL__BODY_PONG));
        int64_t took_ns = amb_clock_monotonic_ns() - begin_ns;
        slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
    }
    /* Those that came while Pongs waited are answered by one. */
    enum {
        LAST = 4711
    };
    door_send_ping(&greedy, LAST);
    for (bool is_last = false; !is_last;) {
        Amb__Control__Control *pong = door_expect(&greedy, AMB__CONTROL__CONTROL__BODY_PONG);
        is_last = pong->pong->time_ns == LAST;
        amb_control_free(pong);
    }
    free(heap);
    assert_true(slowest_ns < AMB_NS_PER_SEC);
    door_disconnect(&greedy);
    door_disconnect(&modest);
    door_close(&door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_are_spread_over_the_workers),
        cmocka_unit_test(test_sessions_have_a_name_that_was_never_used),
        cmocka_unit_test(test_indices_are_taken_from_the_emptiest_shard_and_used_again),
        cmocka_unit_test(test_indices_come_to_an_end),
        cmocka_unit_test(test_one_client_s_heap_of_requests_does_not_keep_others_waiting),
    };
    return cmocka_run_group_tests_name("broker/control", tests, NULL, NULL);
}
