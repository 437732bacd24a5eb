/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/health: threads that hang, a drain, and a listener that takes nobody. */
#include "broker/http/health.h"

#include "broker/count/broker_stats.h"
#include "broker/count/shard_stats.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define S INT64_C(1000000000)

struct fixture {
    struct amb_health health;
    struct amb_inbox control, worker;
    struct amb_broker_stats stats;
    struct amb_url front;
    int listener;
    char why[AMB_HEALTH_WHY_MAX];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (f == NULL || amb_inbox_init(&f->control, NULL) != AMB_OK ||
        amb_inbox_init(&f->worker, NULL) != AMB_OK) {
        return -1;
    }
    amb_pulse_add(&f->health.pulse, &f->control);
    amb_pulse_add(&f->health.pulse, &f->worker);
    f->front.scheme = AMB_URL_UNIX;
    (void)snprintf(f->front.path, sizeof(f->front.path), "/tmp/amb-health-%d", (int)getpid());
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/amb-health-%d", (int)getpid());
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *state = f;
    return bind(f->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
           listen(f->listener, 4) != 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)close(f->listener);
    (void)unlink(f->front.path);
    amb_inbox_fini(&f->control);
    amb_inbox_fini(&f->worker);
    free(f);
    return 0;
}

static void test_a_worker_that_hangs_is_named(void **state)
{
    struct fixture *f = *state;
    assert_true(amb_health_is_good(&f->health, 100 * S, f->why));
    (void)amb_inbox_run(&f->control);
    assert_true(amb_health_is_good(&f->health, 109 * S, f->why));
    (void)amb_inbox_run(&f->control);
    assert_false(amb_health_is_good(&f->health, 110 * S, f->why));
    assert_string_equal(f->why, "worker 0 has not turned for 10 s");
    assert_int_equal(amb_health_silence_ns(&f->health, 110 * S), 10 * S);
    /* Clients are still let in, and a restart would help. */
    (void)amb_inbox_run(&f->control);
    assert_true(amb_health_is_ready(&f->health, &f->stats, &f->front, 111 * S, f->why));
    (void)amb_inbox_run(&f->worker);
    assert_true(amb_health_is_good(&f->health, 112 * S, f->why));
}

static void test_a_control_thread_that_hangs_is_neither(void **state)
{
    struct fixture *f = *state;
    assert_true(amb_health_is_ready(&f->health, &f->stats, &f->front, 100 * S, f->why));
    assert_false(amb_health_is_ready(&f->health, &f->stats, &f->front, 110 * S, f->why));
    assert_string_equal(f->why, "the control thread has not turned for 10 s");
    assert_false(amb_health_is_good(&f->health, 110 * S, f->why));
}

static void test_threads_are_asked_for_a_minute(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(amb_health_turn(&f->health, 100 * S), INT64_MAX);
    assert_int_equal(amb_inbox_run(&f->worker), 0);
    (void)amb_health_is_good(&f->health, 100 * S, f->why);
    assert_int_equal(amb_inbox_run(&f->worker), 1);
    assert_int_equal(amb_health_turn(&f->health, 100 * S + 1), 101 * S);
    assert_int_equal(amb_inbox_run(&f->worker), 0);
    assert_int_equal(amb_health_turn(&f->health, 159 * S), 160 * S);
    assert_int_equal(amb_inbox_run(&f->worker), 1);
    assert_int_equal(amb_health_turn(&f->health, 160 * S), INT64_MAX);
}

static void test_a_drain_and_a_closed_door_are_not_ready(void **state)
{
    struct fixture *f = *state;
    amb_stat_set(&f->stats.draining, 1);
    assert_false(amb_health_is_ready(&f->health, &f->stats, &f->front, S, f->why));
    assert_string_equal(f->why, "it drains");
    amb_stat_set(&f->stats.draining, 0);
    (void)close(f->listener);
    f->listener = -1;
    assert_false(amb_health_is_ready(&f->health, &f->stats, &f->front, S, f->why));
    assert_string_equal(f->why, "its first listener takes no connection: Connection refused");
    assert_true(amb_health_is_good(&f->health, S, f->why));
}

static unsigned taken(const struct fixture *f)
{
    unsigned count = 0;
    int fd;
    while ((fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        count++;
        (void)close(fd);
    }
    return count;
}

/* Each try is a connection that clients wait behind. */
static void test_a_flood_of_questions_is_one_connection(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(fcntl(f->listener, F_SETFL, O_NONBLOCK), 0);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(amb_health_is_ready(&f->health, &f->stats, &f->front, S + i, f->why));
    }
    assert_int_equal(taken(f), 1);
    (void)amb_inbox_run(&f->control);
    assert_true(amb_health_is_ready(&f->health, &f->stats, &f->front, 2 * S, f->why));
    assert_int_equal(taken(f), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_worker_that_hangs_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_control_thread_that_hangs_is_neither, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_threads_are_asked_for_a_minute, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_drain_and_a_closed_door_are_not_ready, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_flood_of_questions_is_one_connection, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
