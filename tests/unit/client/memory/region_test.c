/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: what may be, and that it stays while a message lies there. */
#include "tests/unit/client/session.h"

#include <pthread.h>
#include <stdlib.h>

#define POOL 65536

static uint8_t pool[POOL];

static void *give(void *ctx, size_t len, size_t align, int device)
{
    (void)ctx;
    (void)align;
    return device == -1 && len <= POOL ? pool : NULL;
}

static void take_back(void *ctx, void *memory, size_t len, int device)
{
    (void)ctx;
    (void)len;
    (void)device;
    assert_ptr_equal(memory, pool);
}

static void nothing_and_what_is_registered_already_is_refused(void **state)
{
    struct session s;
    struct amb_region *a, *b;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_register(s.conn, NULL, 10, &a), AMB_EINVAL);
    assert_null(a);
    assert_int_equal(amb_register(s.conn, pool, 0, &a), AMB_EINVAL);
    assert_int_equal(amb_register(s.conn, pool, SIZE_MAX, &a), AMB_EINVAL);
    assert_int_equal(amb_register(NULL, pool, 10, &a), AMB_EINVAL);
    assert_int_equal(amb_register(s.conn, pool, 10, NULL), AMB_EINVAL);
    assert_int_equal(amb_register(s.conn, pool + 100, 100, &a), AMB_OK);
    assert_int_equal(amb_register(s.conn, pool + 199, 10, &b), AMB_EINVAL);
    assert_non_null(strstr(amb_last_error(s.conn).text, "registered already"));
    assert_int_equal(amb_register(s.conn, pool + 200, 10, &b), AMB_OK);
    assert_int_equal(amb_unregister(a, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_register(s.conn, pool + 100, 100, &a), AMB_OK);
    assert_int_equal(amb_unregister(NULL, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_unregister(b, -1), AMB_EINVAL);
    session_close(&s); /* Both go with it. */
}

static void open_pool(struct session *s, const void *state, struct amb_region **region,
                      struct amb_msg **msg)
{
    struct amb_sub *sub;
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    allocator.alloc = give;
    allocator.free = take_back;
    session_open(s, state, NULL);
    assert_int_equal(amb_register(s->conn, pool, POOL, region), AMB_OK);
    assert_int_equal(amb_subscribe(s->conn, "t.>", AMB_SUB(.allocator = &allocator), &sub), AMB_OK);
    fake_broker_deliver(s->fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, msg), AMB_OK);
    assert_ptr_equal(amb_msg_data(*msg), pool);
}

static void it_stays_while_a_message_lies_there(void **state)
{
    struct session s;
    struct amb_region *region;
    struct amb_msg *msg;
    open_pool(&s, *state, &region, &msg);
    assert_int_equal(amb_unregister(region, AMB_NOWAIT), AMB_EAGAIN);
    assert_int_equal(amb_unregister(region, AMB_MS), AMB_ETIMEDOUT);
    amb_msg_release(msg);
    assert_int_equal(amb_unregister(region, AMB_NOWAIT), AMB_OK);
    session_close(&s);
}

static void *release(void *msg)
{
    amb_msg_release(msg);
    return NULL;
}

static void who_waits_for_the_last_message_is_woken(void **state)
{
    struct session s;
    struct amb_region *region;
    struct amb_msg *msg;
    pthread_t thread;
    open_pool(&s, *state, &region, &msg);
    assert_int_equal(pthread_create(&thread, NULL, release, msg), 0);
    assert_int_equal(amb_unregister(region, 20 * AMB_SEC), AMB_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_and_what_is_registered_already_is_refused),
        cmocka_unit_test(it_stays_while_a_message_lies_there),
        cmocka_unit_test(who_waits_for_the_last_message_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
