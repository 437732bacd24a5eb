/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/porter: the slow work of coming and going is done elsewhere, and in the end.
 */
#include "broker/worker/porter.h"

#include "broker/shard/shard.h"
#include "broker/worker/orders_session.h"
#include "tests/support/lingering.h"
#include "wire/base/clock.h"
#include "wire/link/link.h"
#include "wire/link/ring/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE_NS (10 * AMB_NS_PER_SEC)

static void await_closed(const struct amb_porter *porter)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + DEADLINE_NS;
    while (atomic_load(&porter->closing) != 0) {
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
        (void)usleep(1000);
    }
}

/* The other end has been closed for good. */
static void await_gone(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 10000), 1);
    assert_true((poller.revents & POLLHUP) != 0);
}

static void test_connections_are_closed_whatever_is_in_them(void **state)
{
    (void)state;
    struct amb_porter porter = {.is_running = false};
    assert_int_equal(amb_porter_start(&porter), AMB_OK);
    for (int i = 0; i < 3; i++) {
        int plain[2], burdened[2], peer;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plain), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, burdened), 0);
        assert_int_equal(send(plain[0], "x", 1, 0), 1);
        lingering_pass(burdened[0], "Hello", &peer); /* For 60 s, in whoever closes it last. */
        amb_porter_close(&porter, burdened[1]);
        amb_porter_close(&porter, plain[1]);
        await_gone(plain[0]);
        await_gone(burdened[0]);
        await_closed(&porter); /* ... the sooner one. */
        (void)close(plain[0]);
        (void)close(burdened[0]);
        (void)close(peer);
    }
    assert_int_equal(atomic_load(&porter.burdened), 3);
    assert_false(amb_porter_is_behind(&porter, 0));
    amb_porter_stop(&porter);
    amb_porter_stop(&porter);
}

static struct amb_link *made;
static struct amb_ring_fds fds;

static void take_ring(struct amb_shard *shard, struct amb_order *order)
{
    (void)shard;
    assert_int_equal(order->status, AMB_OK);
    const struct amb_order_session_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_session_open, order);
    made = open->opening.ring;
    fds = open->opening.fds;
}

static const struct amb_order_kind taking = {.run = take_ring,
                                             .size = AMB_ORDER_SIZE(struct amb_order_session_open)};

static void test_an_order_goes_on_with_its_ring(void **state)
{
    (void)state;
    static struct amb_shard shard;
    struct amb_porter porter = {.is_running = false};
    assert_int_equal(amb_inbox_init(&shard.inbox, &shard), AMB_OK);
    assert_int_equal(amb_porter_start(&porter), AMB_OK);
    struct amb_order_session_open *open = amb_order_new(&taking, NULL, NULL);
    open->opening.ring_size = AMB_RING_SIZE_MIN;
    amb_porter_open(&porter, &shard, open);
    struct pollfd bell = {.fd = shard.inbox.bell, .events = POLLIN};
    if (amb_inbox_arm(&shard.inbox)) {
        assert_int_equal(poll(&bell, 1, 10000), 1);
    }
    amb_inbox_disarm(&shard.inbox, true);
    assert_int_equal(amb_inbox_run(&shard.inbox), 1);
    assert_non_null(made);
    static const struct amb_link_events events = {.on_frame = NULL};
    amb_ring_adopt(made, &events, NULL);
    assert_true(amb_link_close(made));
    (void)close(fds.memory);
    (void)close(fds.bell);
    amb_porter_stop(&porter);
    amb_inbox_fini(&shard.inbox);
}

static unsigned refused;

static void note_refused(struct amb_shard *shard, struct amb_order *order)
{
    (void)shard;
    assert_int_equal(order->status, AMB_ECLOSED);
    assert_null(AMB_CONTAINER_OF(order, struct amb_order_session_open, order)->opening.ring);
    refused++;
}

static const struct amb_order_kind noting = {.run = note_refused,
                                             .size = AMB_ORDER_SIZE(struct amb_order_session_open)};

static void test_rings_are_refused_when_it_ends_and_afterwards(void **state)
{
    (void)state;
    enum {
        RINGS = 1000
    };
    static struct amb_shard shard;
    static struct amb_porter porter;
    assert_int_equal(amb_inbox_init(&shard.inbox, &shard), AMB_OK);
    assert_int_equal(amb_porter_start(&porter), AMB_OK);
    amb_porter_refuse(&porter);
    for (unsigned i = 0; i <= RINGS; i++) {
        struct amb_order_session_open *open = amb_order_new(&noting, NULL, NULL);
        open->opening.ring_size = AMB_RING_SIZE_MIN;
        if (i == RINGS) {
            amb_porter_stop(&porter);
        }
        amb_porter_open(&porter, &shard, open);
    }
    (void)amb_inbox_run(&shard.inbox);
    assert_int_equal(refused, RINGS + 1);
    amb_inbox_fini(&shard.inbox);
}

static _Atomic int disposed;
static _Atomic bool has_emptied;
static _Thread_local bool has_no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return has_no_memory ? NULL : __real_malloc(size);
}

static void dispose(struct amb_link_waste *waste, bool empties)
{
    (void)waste;
    has_emptied = empties;
    disposed++;
}

static void test_waste_is_disposed_of_once(void **state)
{
    (void)state;
    struct amb_porter porter = {.is_running = false};
    struct amb_link_waste waste = {.dispose = dispose};
    amb_porter_dispose(NULL, &waste);
    assert_int_equal(disposed, 1);
    assert_int_equal(amb_porter_start(&porter), AMB_OK);
    amb_porter_dispose(&porter, &waste);
    amb_porter_stop(&porter);
    assert_int_equal(disposed, 2);
}

/* When the broker ends, clients still read what it has sent them. */
static void test_contents_stay_when_the_broker_ends_without_memory(void **state)
{
    (void)state;
    struct amb_porter porter = {.is_running = false};
    struct amb_link_waste waste = {.dispose = dispose};
    assert_int_equal(amb_porter_start(&porter), AMB_OK);
    has_no_memory = true;
    amb_porter_dispose(&porter, &waste);
    assert_true(has_emptied);
    amb_porter_refuse(&porter);
    amb_porter_dispose(&porter, &waste);
    has_no_memory = false;
    assert_false(has_emptied);
    amb_porter_stop(&porter);
}

/* A worker's mail may close sessions when the porter has stopped. */
static void test_a_stopped_porter_leaves_work_to_its_caller(void **state)
{
    (void)state;
    struct amb_porter porter = {.is_running = false};
    struct amb_link_waste waste = {.dispose = dispose};
    int fds_of[2], before = disposed;
    assert_int_equal(amb_porter_start(&porter), AMB_OK);
    amb_porter_stop(&porter);
    amb_porter_dispose(&porter, &waste);
    assert_int_equal(disposed, before + 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_of), 0);
    amb_porter_close(&porter, fds_of[1]);
    assert_int_equal(fcntl(fds_of[1], F_GETFD), -1);
    (void)close(fds_of[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_are_closed_whatever_is_in_them),
        cmocka_unit_test(test_an_order_goes_on_with_its_ring),
        cmocka_unit_test(test_rings_are_refused_when_it_ends_and_afterwards),
        cmocka_unit_test(test_waste_is_disposed_of_once),
        cmocka_unit_test(test_contents_stay_when_the_broker_ends_without_memory),
        cmocka_unit_test(test_a_stopped_porter_leaves_work_to_its_caller),
    };
    return cmocka_run_group_tests_name("broker/porter", tests, NULL, NULL);
}
