/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steady state: once warm, a message costs no allocation in the thread that sends or takes it. The
 * test brings its own malloc, which counts; under sanitizers, which bring theirs, it does nothing.
 */
#include "tests/unit/client/session.h"

#include <errno.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

#ifndef IS_SANITIZED
static _Thread_local bool is_counting;
static _Thread_local uint64_t allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    allocations += is_counting;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations += is_counting;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    allocations += is_counting;
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    allocations += is_counting;
    return __libc_memalign(align, size);
}

static void sending_allocates_nothing(void **state)
{
    struct session s;
    struct amb_pub *pub;
    static const uint8_t large[100001];
    session_open(&s, *state, NULL);
    allocations = 0;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    for (int round = 0; round < 4; round++) {
        is_counting = round == 3;
        for (int i = 0; i < 20000; i++) {
            assert_int_equal(amb_pub_send(pub, "12345678", 8, AMB_FOREVER), AMB_OK);
        }
        for (int i = 0; i < 20; i++) {
            assert_int_equal(amb_pub_send(pub, large, sizeof(large), AMB_FOREVER), AMB_OK);
        }
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    }
    is_counting = false;
    /* But for more on its way at once than ever before. */
    assert_true(allocations < 10);
    session_close(&s);
}

/* So many messages are under way at once, at most. */
#define LEASED_AT_ONCE 50

static void lease_some(struct amb_pub *pub)
{
    for (int i = 0; i < LEASED_AT_ONCE; i++) {
        struct amb_lease *lease;
        size_t len = i % 5 == 0 ? 100000 : 100;
        assert_int_equal(amb_lease(pub, len, AMB_FOREVER, &lease), AMB_OK);
        memset(amb_lease_data(lease), 'x', 100);
        if (i % 7 == 0) {
            amb_lease_abandon(lease);
        } else {
            assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
        }
    }
}

static void leasing_allocates_nothing(void **state)
{
    struct session s;
    struct amb_pub *pub;
    session_open(&s, *state, NULL);
    allocations = 0;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    for (int round = 0; round < 50; round++) {
        /* The broker reads nothing at first: as many are under way then as there ever will be,
         * however the threads share the processors later. */
        fake_broker_stall(s.fake, round < 3);
        fake_broker_hold_freed(s.fake, round < 3);
        is_counting = round > 10;
        lease_some(pub);
        is_counting = false;
        fake_broker_stall(s.fake, false);
        fake_broker_hold_freed(s.fake, false);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    }
    assert_true(allocations < 10);
    session_close(&s);
}

static void taking_allocates_nothing(void **state)
{
    struct session s;
    struct amb_sub *sub;
    session_open(&s, *state, NULL);
    allocations = 0;
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    uint64_t seq = 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 5; i++) {
            fake_broker_deliver(s.fake, 0, 1, "m", 100, seq, 0);
            seq += 100;
        }
        is_counting = round > 10;
        for (int i = 0; i < 500; i++) {
            struct amb_msg *msg;
            assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
            amb_msg_release(msg);
        }
        is_counting = false;
    }
    assert_int_equal(allocations, 0);
    session_close(&s);
}
#else
static void sending_allocates_nothing(void **state)
{
    (void)state;
}

static void leasing_allocates_nothing(void **state)
{
    (void)state;
}

static void taking_allocates_nothing(void **state)
{
    (void)state;
}
#endif

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
    static struct fake_options leased = {.lease_bytes = UINT64_C(64) << 20};
    /* Windows that hold all that is under way at once. */
    static struct fake_options wide[] = {
        {.link = AMB_LINK_RING, .window = UINT64_C(16) << 20},
        {.link = AMB_LINK_STREAM, .window = UINT64_C(16) << 20},
        {.lease_bytes = UINT64_C(64) << 20, .window = UINT64_C(16) << 20},
    };
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(sending_allocates_nothing),
        cmocka_unit_test_prestate(sending_allocates_nothing, &leased),
        cmocka_unit_test_prestate(leasing_allocates_nothing, &wide[0]),
        cmocka_unit_test_prestate(leasing_allocates_nothing, &wide[1]),
        cmocka_unit_test_prestate(leasing_allocates_nothing, &wide[2]),
        BOTH(taking_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
