/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: threads that start, sleep, are woken and stop. The stages' tests cover the work of a
 * turn.
 */
#include "broker/config/config.h"
#include "broker/worker/worker.h"
#include "tests/support/config_try.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

struct ping {
    struct amb_mail mail;
    sem_t *done;
    pthread_t by;
    void *owner;
};

static void ping_arrived(struct amb_mail *mail, void *owner)
{
    struct ping *ping = AMB_CONTAINER_OF(mail, struct ping, mail);
    ping->by = pthread_self();
    ping->owner = owner;
    (void)sem_post(ping->done);
}

struct world {
    struct amb_config *config;
    struct amb_membudget budget;
    struct amb_inbox control;
    struct amb_worker workers[2];
    struct amb_shard *shards[2];
};

static int setup_with(void **state, const char *text)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->config = try_accept(text);
    w->budget.max = w->config->memory.host.size;
    assert_int_equal(amb_inbox_init(&w->control, w), AMB_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(amb_worker_init(&w->workers[i], i, w->config, &w->budget), AMB_OK);
        w->shards[i] = &w->workers[i].shard;
    }
    for (unsigned i = 0; i < 2; i++) {
        w->shards[i]->peers = w->shards;
        w->shards[i]->peer_count = 2;
        w->shards[i]->control = &w->control;
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(amb_worker_start(&w->workers[i]), AMB_OK);
    }
    *state = w;
    return 0;
}

#define SMALL "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"

static int setup_sleeping(void **state)
{
    return setup_with(state, SMALL "server = { spin = \"0us\"; };");
}

static int setup_spinning(void **state)
{
    return setup_with(state, SMALL "server = { spin = \"10ms\"; };");
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 2; i++) {
        amb_worker_stop(&w->workers[i]);
        amb_worker_stop(&w->workers[i]); /* harmless twice */
    }
    for (unsigned i = 0; i < 2; i++) {
        amb_worker_fini(&w->workers[i]);
    }
    amb_inbox_fini(&w->control);
    amb_config_destroy(&w->config);
    free(w);
    return 0;
}

static void ping(struct world *w, unsigned worker, struct ping *out)
{
    sem_t done;
    struct timespec limit;
    assert_int_equal(sem_init(&done, 0, 0), 0);
    *out = (struct ping){.done = &done};
    amb_mail_post(&w->shards[worker]->inbox, &out->mail, ping_arrived);
    (void)clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    assert_int_equal(sem_timedwait(&done, &limit), 0);
    (void)sem_destroy(&done);
}

static void test_mail_runs_on_the_workers_own_thread(void **state)
{
    struct world *w = *state;
    struct ping first, second;
    ping(w, 0, &first);
    ping(w, 1, &second);
    assert_ptr_equal(first.owner, w->shards[0]);
    assert_ptr_equal(second.owner, w->shards[1]);
    assert_false(pthread_equal(first.by, second.by));
    assert_false(pthread_equal(first.by, pthread_self()));
}

/* After each ping the worker falls asleep again, and the next one finds it there, or on its way. */
static void test_a_sleeping_worker_wakes_for_mail(void **state)
{
    struct world *w = *state;
    struct ping out;
    for (unsigned i = 0; i < 300; i++) {
        ping(w, i % 2, &out);
    }
    for (unsigned i = 0; i < 20; i++) {
        uint64_t sleeps = amb_stat_get(&w->shards[0]->stats.sleeps);
        ping(w, 0, &out);
        for (unsigned n = 0; n < 20000 && amb_stat_get(&w->shards[0]->stats.sleeps) == sleeps;
             n++) {
            const struct timespec pause = {.tv_nsec = 1000000};
            (void)nanosleep(&pause, NULL);
        }
        assert_true(amb_stat_get(&w->shards[0]->stats.sleeps) > sleeps);
    }
}

static void test_a_worker_that_has_started_has_a_segment(void **state)
{
    struct world *w = *state;
    assert_int_equal(atomic_load(&w->budget.used), 2 * w->config->memory.host.segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mail_runs_on_the_workers_own_thread, setup_sleeping,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_sleeping_worker_wakes_for_mail, setup_sleeping,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_mail_runs_on_the_workers_own_thread, setup_spinning,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_worker_that_has_started_has_a_segment,
                                        setup_spinning, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
