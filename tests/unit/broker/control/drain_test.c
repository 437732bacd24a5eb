/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/drain: the graceful end. Accepted messages are delivered, nobody new gets in, everybody is
 * told, and it never takes longer than drain_timeout. Publishers and subscribers are libamb's.
 */
#include "broker/control/drain.h"

#include "broker/shard/shard.h"
#include "tests/support/door/door_harness.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND AMB_NS_PER_SEC
#define MESSAGES 40

struct pair {
    struct amb_conn *writer, *reader;
    struct amb_pub *pub;
    struct amb_sub *sub;
};

/* A subscriber that may hold one message at a time, so that the others stay with the broker. */
static void pair_open(struct pair *pair, const struct door *door)
{
    char url[128];
    (void)snprintf(url, sizeof(url), "unix://%s", door->socket_path);
    assert_int_equal(amb_connect(url, AMB_OPTIONS(.reconnect_attempts = AMB_NONE), &pair->writer),
                     AMB_OK);
    assert_int_equal(amb_connect(url, AMB_OPTIONS(.reconnect_attempts = AMB_NONE), &pair->reader),
                     AMB_OK);
    const struct amb_sub_options *options =
        AMB_SUB(.credit_msgs = 1, .copy = 1, .slow = AMB_SLOW_BLOCK,
                .slow_block_ns = 3600 * SECOND);
    assert_int_equal(amb_subscribe(pair->reader, "d", options, &pair->sub), AMB_OK);
    assert_int_equal(amb_pub_open(pair->writer, "d", NULL, &pair->pub), AMB_OK);
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(amb_pub_send(pair->pub, &i, sizeof(i), SECOND), AMB_OK);
        assert_int_equal(amb_pub_flush(pair->pub, 0, SECOND), AMB_OK); /* A batch each. */
    }
}

static void pair_close(struct pair *pair)
{
    (void)amb_close(pair->writer, AMB_NOWAIT);
    (void)amb_close(pair->reader, AMB_NOWAIT);
}

static void await_door_closed(const struct door *door)
{
    while (access(door->socket_path, F_OK) == 0) {
        (void)poll(NULL, 0, 1);
    }
}

static void *wait_for_broker(void *arg)
{
    struct door *door = arg;
    (void)amb_broker_wait(door->broker);
    return NULL;
}

/* Ends what is left of the harness; the broker has ended. */
static void bury(struct door *door)
{
    amb_broker_destroy(&door->broker);
    amb_config_destroy(&door->config);
    assert_int_equal(rmdir(door->folder), 0);
}

static void test_what_was_accepted_is_delivered(void **state)
{
    (void)state;
    struct door door;
    struct pair pair;
    pthread_t waiter;
    door_open(&door, NULL);
    pair_open(&pair, &door);
    amb_broker_drain(door.broker);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_broker, &door), 0);
    await_door_closed(&door);
    for (int i = 0; i < MESSAGES; i++) {
        struct amb_msg *msg;
        assert_int_equal(amb_next(pair.sub, 5 * SECOND, &msg), AMB_OK);
        int value;
        assert_int_equal(amb_msg_size(msg), sizeof(value));
        memcpy(&value, amb_msg_data(msg), sizeof(value));
        assert_int_equal(value, i);
        assert_int_equal(amb_msg_lost(msg, NULL), 0);
        amb_msg_release(msg);
    }
    assert_int_equal(pthread_join(waiter, NULL), 0);
    struct amb_msg *none;
    assert_int_not_equal(amb_next(pair.sub, 5 * SECOND, &none), AMB_OK);
    pair_close(&pair);
    bury(&door);
}

static void test_nobody_new_gets_in(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.drain_timeout=500ms", NULL};
    struct door door;
    struct pair pair;
    struct door_client early, late;
    door_open(&door, options);
    pair_open(&pair, &door);        /* Keeps the drain from ending at once. */
    door_connect_tcp(&door, &late); /* Accepted by the time the next one has its answer. */
    door_connect_tcp(&door, &early);
    door_send_hello(&early, "");
    amb_control_free(door_expect(&early, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    amb_broker_drain(door.broker);
    await_door_closed(&door);
    door_send_hello(&late, "");
    door_expect_error(&late, 0, AMB_EBUSY, "shutting down");
    door_expect_closed(&late);
    assert_int_equal(amb_broker_wait(door.broker), 0);
    door_expect_error(&early, 0, AMB_ECLOSED, "shutting down");
    door_disconnect(&early);
    door_disconnect(&late);
    pair_close(&pair);
    bury(&door);
}

static int64_t drain_with_reader_that_takes_nothing(const char *timeout, unsigned calls)
{
    const char *const options[] = {timeout, NULL};
    struct door door;
    struct pair pair;
    door_open(&door, options);
    pair_open(&pair, &door);
    int64_t begin_ns = amb_clock_monotonic_ns();
    for (unsigned i = 0; i < calls; i++) {
        amb_broker_drain(door.broker);
    }
    assert_int_equal(amb_broker_wait(door.broker), 0);
    int64_t took_ns = amb_clock_monotonic_ns() - begin_ns;
    pair_close(&pair);
    bury(&door);
    return took_ns;
}

static void test_the_timeout_ends_it(void **state)
{
    (void)state;
    int64_t took_ns = drain_with_reader_that_takes_nothing("limits.drain_timeout=200ms", 1);
    assert_in_range(took_ns, 150 * AMB_NS_PER_MS, 20 * SECOND); /* A machine may be busy. */
}

static void test_a_second_call_ends_it_at_once(void **state)
{
    (void)state;
    int64_t took_ns = drain_with_reader_that_takes_nothing("limits.drain_timeout=60s", 2);
    assert_in_range(took_ns, 0, 20 * SECOND);
}

static void test_publishing_is_refused_and_told(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.drain_timeout=500ms", NULL};
    struct door door;
    struct pair pair;
    door_open(&door, options);
    pair_open(&pair, &door);
    amb_broker_drain(door.broker);
    await_door_closed(&door);
    enum amb_status status = AMB_OK;
    for (int i = 0; i < 1000 && status == AMB_OK; i++) {
        status = amb_pub_send(pair.pub, "late", 4, SECOND);
        if (status == AMB_OK) {
            status = amb_pub_flush(pair.pub, 0, SECOND);
        }
    }
    assert_int_not_equal(status, AMB_OK);
    assert_int_not_equal(status, AMB_ETIMEDOUT); /* An answer, not silence. */
    assert_int_equal(amb_broker_wait(door.broker), 0);
    pair_close(&pair);
    bury(&door);
}

/* ---- without memory ---- */

static _Thread_local bool has_no_memory;

/* The linker sees the shared libamb's calls, too. */
#define SHOWN __attribute__((visibility("default")))
void *__real_malloc(size_t size);
SHOWN void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
SHOWN void *__wrap_calloc(size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    return has_no_memory ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return has_no_memory ? NULL : __real_calloc(count, size);
}

static void test_an_end_needs_no_memory(void **state)
{
    (void)state;
    struct door door;
    door_open(&door, NULL);
    has_no_memory = true;
    amb_broker_drain(door.broker);
    has_no_memory = false;
    assert_int_equal(amb_broker_wait(door.broker), 0);
    bury(&door);
}

/* A control thread and a worker, without threads. */
static struct amb_control control;
static struct amb_shard shard;

static void turn(void)
{
    amb_drain_tick(&control);
    (void)amb_inbox_run(&shard.inbox);
    (void)amb_inbox_run(&control.inbox);
}

static void test_a_worker_that_cannot_be_asked_is_not_empty(void **state)
{
    (void)state;
    struct amb_shard *shards[] = {&shard};
    memset(&control, 0, sizeof(control));
    memset(&shard, 0, sizeof(shard));
    amb_list_init(&control.clients);
    amb_list_init(&shard.sessions.live);
    amb_shard_takers_init(&shard.takers);
    assert_int_equal(amb_inbox_init(&control.inbox, &control), AMB_OK);
    assert_int_equal(amb_inbox_init(&shard.inbox, &shard), AMB_OK);
    shard.control = &control.inbox;
    control.shards = shards;
    control.shard_count = 1;
    control.is_draining = true;
    control.drain_deadline_ns = INT64_MAX;
    has_no_memory = true;
    for (unsigned i = 0; i < 5; i++) {
        turn();
    }
    has_no_memory = false;
    assert_false(control.is_over);
    assert_false(shard.is_draining);
    for (unsigned i = 0; i < 5 && !control.is_over; i++) {
        turn();
    }
    assert_true(control.is_over);
    assert_true(shard.is_draining);
    amb_inbox_fini(&shard.inbox);
    amb_inbox_fini(&control.inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_accepted_is_delivered),
        cmocka_unit_test(test_nobody_new_gets_in),
        cmocka_unit_test(test_the_timeout_ends_it),
        cmocka_unit_test(test_a_second_call_ends_it_at_once),
        cmocka_unit_test(test_publishing_is_refused_and_told),
        cmocka_unit_test(test_an_end_needs_no_memory),
        cmocka_unit_test(test_a_worker_that_cannot_be_asked_is_not_empty),
    };
    return cmocka_run_group_tests_name("broker/drain", tests, NULL, NULL);
}
