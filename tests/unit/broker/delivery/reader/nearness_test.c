/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriptions of sessions with each door and link. */
#include "broker/delivery/reader/nearness.h"

#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct amb_link_ops ops;
    struct amb_link link;
    struct amb_session session;
    struct amb_subscription sub;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->link.ops = &w->ops;
    w->session.link = &w->link;
    w->sub.session = &w->session;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static const char *by(struct world *w, bool is_on_host, enum amb_link_kind kind)
{
    w->session.is_on_host = is_on_host;
    w->ops.kind = kind;
    return amb_nearness_name(amb_nearness_of(&w->sub));
}

static void test_a_client_of_a_unix_socket_is_on_the_host(void **state)
{
    struct world *w = *state;
    assert_string_equal(by(w, true, AMB_LINK_RING), "host");
    assert_string_equal(by(w, true, AMB_LINK_STREAM), "host");
    w->session.link = NULL; /* Its stream is still to come. */
    assert_string_equal(by(w, true, AMB_LINK_STREAM), "host");
    assert_string_equal(by(w, false, AMB_LINK_STREAM), "remote");
}

static void test_tcp_and_ucx_are_remote(void **state)
{
    struct world *w = *state;
    assert_string_equal(by(w, false, AMB_LINK_STREAM), "remote");
    assert_string_equal(by(w, false, AMB_LINK_UCX), "remote");
    assert_string_equal(by(w, true, AMB_LINK_UCX), "remote");
}

static void test_who_reads_gpu_memory_in_place_is_nearer(void **state)
{
    struct world *w = *state;
    w->sub.options.mem = AMB_MEM_AS_SENT;
    assert_string_equal(by(w, true, AMB_LINK_RING), "host"); /* It is not trusted with a pool. */
    w->session.may_map_gpu = true;
    assert_string_equal(by(w, true, AMB_LINK_RING), "gpu");
    w->sub.options.mem = AMB_MEM_CUDA;
    assert_string_equal(by(w, true, AMB_LINK_RING), "gpu");
    w->sub.options.mem = AMB_MEM_HOST;
    assert_string_equal(by(w, true, AMB_LINK_RING), "host");
    w->sub.options.mem = AMB_MEM_CUDA;
    w->sub.options.lazy = AMB_LAZY_PIN;
    assert_string_equal(by(w, true, AMB_LINK_RING), "host");
}

static void test_each_of_64_pools_has_a_bit(void **state)
{
    (void)state;
    assert_true(amb_nearness_gpu_bit(0) == 1);
    assert_true(amb_nearness_gpu_bit(63) == UINT64_C(1) << 63);
    assert_true(amb_nearness_gpu_bit(64) == 1);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_a_client_of_a_unix_socket_is_on_the_host),
        T(test_tcp_and_ucx_are_remote),
        T(test_who_reads_gpu_memory_in_place_is_nearer),
        T(test_each_of_64_pools_has_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
