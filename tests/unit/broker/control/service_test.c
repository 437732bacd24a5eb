/* SPDX-License-Identifier: Apache-2.0 */
/* The state and the watchdog, under a clock of the test. Threads are inboxes that the test runs,
 * and the manager is a socket of its own. */
#include "broker/base/notify.h"
#include "broker/control/service.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WATCHDOG_NS (40 * AMB_NS_PER_SEC) /* real time that passes meanwhile counts for nothing */

static unsigned errors;
static char logged[1024];

static void on_log(enum amb_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level <= AMB_LOG_WARN) {
        errors++;
        (void)snprintf(logged, sizeof(logged), "%s", line);
    }
}

struct world {
    int manager;
    struct amb_notify notify;
    struct amb_inbox home, worker, maker;
    struct amb_service service;
    struct amb_service_figures figures;
    int64_t now_ns;
};

static void begin(struct world *world, int64_t watchdog_ns)
{
    char name[64];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memset(world, 0, sizeof(*world));
    errors = 0;
    amb_log_set_sink(on_log, NULL);
    (void)snprintf(name, sizeof(name), "@amb-service-test-%d", (int)getpid());
    memcpy(at.sun_path + 1, name + 1, strlen(name) - 1);
    world->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(world->manager >= 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    assert_int_equal(bind(world->manager, (const struct sockaddr *)&at, len), 0);
    amb_notify_init(&world->notify, name, NULL, NULL);
    world->notify.watchdog_ns = watchdog_ns;
    assert_int_equal(amb_inbox_init(&world->home, world), AMB_OK);
    assert_int_equal(amb_inbox_init(&world->worker, world), AMB_OK);
    assert_int_equal(amb_inbox_init(&world->maker, world), AMB_OK);
    amb_service_init(&world->service, &world->notify, &world->home);
    amb_service_add(&world->service, &world->worker, "worker-0");
    amb_service_add(&world->service, &world->maker, "maker");
    world->figures.memory_max = UINT64_C(4) << 30;
    world->now_ns = amb_clock_monotonic_ns();
}

static void end(struct world *world)
{
    amb_log_set_sink(NULL, NULL);
    amb_inbox_fini(&world->home);
    amb_inbox_fini(&world->worker);
    amb_inbox_fini(&world->maker);
    amb_notify_fini(&world->notify);
    (void)close(world->manager);
}

static void run(struct world *world)
{
    amb_service_run(&world->service, &world->figures, world->now_ns);
}

static const char *heard(const struct world *world)
{
    static char text[1024];
    ssize_t got = recv(world->manager, text, sizeof(text) - 1, MSG_DONTWAIT);
    text[got < 0 ? 0 : got] = '\0';
    return text;
}

static void forget(const struct world *world)
{
    while (heard(world)[0] != '\0') {
    }
}

/* All that are asked do, and the control thread reads it. */
static void answer(struct world *world)
{
    (void)amb_inbox_run(&world->worker);
    (void)amb_inbox_run(&world->maker);
    (void)amb_inbox_run(&world->home);
}

static void test_the_watchdog_is_fed_when_all_have_answered(void **state)
{
    (void)state;
    struct world world;
    begin(&world, WATCHDOG_NS);
    run(&world);
    forget(&world);
    assert_int_equal(amb_inbox_run(&world.worker), 1);
    (void)amb_inbox_run(&world.home);
    assert_string_equal(heard(&world), ""); /* The maker has not. */
    assert_int_equal(amb_inbox_run(&world.maker), 1);
    (void)amb_inbox_run(&world.home);
    assert_string_equal(heard(&world), "WATCHDOG=1");
    /* The next time after a quarter, not before. */
    run(&world);
    assert_int_equal(amb_inbox_run(&world.worker), 0);
    assert_true(amb_service_due_ns(&world.service) <= world.now_ns + WATCHDOG_NS / 4);
    world.now_ns += WATCHDOG_NS / 4;
    run(&world);
    assert_int_equal(amb_inbox_run(&world.worker), 1);
    assert_int_equal(errors, 0);
    end(&world);
}

static void test_a_thread_that_hangs_is_named_and_not_fed_for(void **state)
{
    (void)state;
    struct world world;
    begin(&world, WATCHDOG_NS);
    world.now_ns -= WATCHDOG_NS; /* so that answers of this moment are late */
    run(&world);
    forget(&world);
    (void)amb_inbox_run(&world.worker);
    (void)amb_inbox_run(&world.home);
    for (unsigned quarter = 1; quarter <= 4; quarter++) {
        world.now_ns += WATCHDOG_NS / 4;
        run(&world);
        assert_null(strstr(heard(&world), "WATCHDOG"));
        assert_int_equal(errors, quarter >= 2 ? 1 : 0);
    }
    assert_non_null(strstr(logged, "maker"));
    assert_int_equal(amb_inbox_run(&world.maker), 1);
    (void)amb_inbox_run(&world.home);
    forget(&world);
    assert_non_null(strstr(logged, "answer again"));
    /* It was too late. The next round counts. */
    world.now_ns = amb_clock_monotonic_ns() + WATCHDOG_NS / 4;
    run(&world);
    forget(&world);
    answer(&world);
    assert_string_equal(heard(&world), "WATCHDOG=1");
    end(&world);
}

static void test_a_late_answer_does_not_feed(void **state)
{
    (void)state;
    struct world world;
    begin(&world, WATCHDOG_NS);
    world.now_ns -= WATCHDOG_NS;
    run(&world);
    forget(&world);
    answer(&world);
    assert_string_equal(heard(&world), "");
    end(&world);
}

/* The manager's patience is not over yet. So it is not left to the next quarter. */
static void test_after_a_late_answer_all_are_asked_at_once(void **state)
{
    (void)state;
    struct world world;
    begin(&world, WATCHDOG_NS);
    const int64_t now_ns = world.now_ns;
    world.now_ns = now_ns - WATCHDOG_NS / 10 * 6;
    run(&world);
    world.now_ns = now_ns - WATCHDOG_NS / 10; /* Nobody has answered, and the log has it. */
    run(&world);
    assert_int_equal(errors, 1 + 1);
    forget(&world);
    answer(&world);
    assert_string_equal(heard(&world), "");
    assert_true(amb_service_due_ns(&world.service) <= now_ns);
    world.now_ns = now_ns;
    run(&world);
    forget(&world);
    answer(&world);
    assert_string_equal(heard(&world), "WATCHDOG=1");
    end(&world);
}

static void test_without_a_watchdog_nobody_is_asked(void **state)
{
    (void)state;
    struct world world;
    begin(&world, 0);
    run(&world);
    assert_int_equal(amb_inbox_run(&world.worker), 0);
    assert_non_null(strstr(heard(&world), "STATUS=0 clients"));
    assert_true(amb_service_due_ns(&world.service) == INT64_MAX); /* It may sleep. */
    end(&world);
}

static void test_the_state_has_clients_rate_and_memory(void **state)
{
    (void)state;
    struct world world;
    begin(&world, 0);
    run(&world);
    forget(&world);
    world.figures.clients = 3;
    world.figures.messages = 5000;
    world.figures.memory = UINT64_C(1536) << 20;
    world.now_ns += 5 * AMB_NS_PER_SEC;
    run(&world);
    assert_string_equal(heard(&world),
                        "STATUS=3 clients, 1000 messages/s, memory 1.5 GiB of 4.0 GiB");
    world.now_ns += AMB_NS_PER_SEC;
    run(&world);
    assert_string_equal(heard(&world), ""); /* Not so often. */
    assert_true(amb_service_due_ns(&world.service) == world.now_ns + 4 * AMB_NS_PER_SEC);
    /* The last one leaves: once more, and then it is quiet. */
    world.figures.clients = 0;
    world.now_ns += 4 * AMB_NS_PER_SEC;
    run(&world);
    assert_non_null(strstr(heard(&world), "STATUS=0 clients, 0 messages/s"));
    world.now_ns += 100 * AMB_NS_PER_SEC;
    run(&world);
    assert_string_equal(heard(&world), "");
    assert_true(amb_service_due_ns(&world.service) == INT64_MAX);
    end(&world);
}

static void test_a_drain_is_told_at_once_and_asks_for_time(void **state)
{
    (void)state;
    struct world world;
    begin(&world, 0);
    run(&world);
    forget(&world);
    world.figures = (struct amb_service_figures){.clients = 2, .is_draining = true, .left = 9};
    run(&world);
    assert_string_equal(heard(&world), "STOPPING=1\nSTATUS=draining: 2 clients, 9 messages are "
                                       "left\nEXTEND_TIMEOUT_USEC=15000000");
    world.now_ns += AMB_NS_PER_SEC / 2;
    run(&world);
    assert_string_equal(heard(&world), "");
    world.now_ns += AMB_NS_PER_SEC / 2;
    world.figures.left = 4;
    run(&world);
    assert_string_equal(heard(&world), "STATUS=draining: 2 clients, 4 messages are "
                                       "left\nEXTEND_TIMEOUT_USEC=15000000");
    end(&world);
}

static void test_more_threads_than_there_is_room_for_are_left_out(void **state)
{
    (void)state;
    struct world world;
    begin(&world, WATCHDOG_NS);
    for (unsigned i = 0; i < AMB_SERVICE_THREADS_MAX; i++) {
        amb_service_add(&world.service, &world.worker, "a-name-that-is-longer-than-its-room");
    }
    assert_int_equal(world.service.count, AMB_SERVICE_THREADS_MAX);
    end(&world);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_the_watchdog_is_fed_when_all_have_answered),
        T(test_a_thread_that_hangs_is_named_and_not_fed_for),
        T(test_a_late_answer_does_not_feed),
        T(test_after_a_late_answer_all_are_asked_at_once),
        T(test_without_a_watchdog_nobody_is_asked),
        T(test_the_state_has_clients_rate_and_memory),
        T(test_a_drain_is_told_at_once_and_asks_for_time),
        T(test_more_threads_than_there_is_room_for_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
