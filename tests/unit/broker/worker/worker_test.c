/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: threads that start, sleep, are woken and stop. The stages' tests cover the work of a
 * turn.
 */
#include "broker/config/config.h"
#include "broker/worker/worker.h"
#include "tests/support/config_try.h"

#include <pthread.h>
#include <sched.h>
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

static int setup_on(void **state, const char *text, const struct amb_config_machine *machine)
{
    struct amb_config_source source = try_source(text);
    source.machine = machine;
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->config = try_accept_source(&source);
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

static int setup_with(void **state, const char *text)
{
    return setup_on(state, text, &try_machine);
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

/* Both on processors of their own, the last one first; NULL: this machine has one alone. */
static int setup_bound(void **state)
{
    struct amb_config_machine machine;
    uint16_t cpus[AMB_CPUS_MAX];
    unsigned count = 0;
    amb_config_machine_read(&machine);
    for (unsigned cpu = 0; cpu < AMB_CPUS_MAX; cpu++) {
        cpus[count] = (uint16_t)cpu;
        count += amb_cpus_has(&machine.cpus, cpu);
    }
    if (count < 2) {
        *state = NULL;
        return 0;
    }
    char text[256];
    (void)snprintf(text, sizeof(text), SMALL "server = { cpus = \"%u,%u\"; };", cpus[count - 1],
                   cpus[0]);
    return setup_on(state, text, &machine);
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 2 && w != NULL; i++) {
        amb_worker_stop(&w->workers[i]);
        amb_worker_stop(&w->workers[i]); /* harmless twice */
    }
    if (w == NULL) {
        return 0;
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
        uint64_t sleeps = amb_stat_get(&w->shards[0]->stats->sleeps);
        ping(w, 0, &out);
        for (unsigned n = 0; n < 20000 && amb_stat_get(&w->shards[0]->stats->sleeps) == sleeps;
             n++) {
            const struct timespec pause = {.tv_nsec = 1000000};
            (void)nanosleep(&pause, NULL);
        }
        assert_true(amb_stat_get(&w->shards[0]->stats->sleeps) > sleeps);
    }
}

static void test_a_worker_that_has_started_has_a_segment(void **state)
{
    struct world *w = *state;
    assert_int_equal(atomic_load(&w->budget.used), 2 * w->config->memory.host.segment);
}

struct where {
    struct amb_mail mail;
    sem_t *done;
    struct amb_cpus cpus;
    int at;
};

static void where_arrived(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct where *where = AMB_CONTAINER_OF(mail, struct where, mail);
    (void)amb_cpus_allowed(&where->cpus);
    where->at = sched_getcpu();
    (void)sem_post(where->done);
}

static void test_a_bound_worker_runs_on_its_processor_alone(void **state)
{
    struct world *w = *state;
    if (w == NULL) {
        skip();
    }
    struct amb_cpus ours;
    assert_true(amb_cpus_allowed(&ours)); /* Others are not bound. */
    assert_true(amb_cpus_count(&ours) >= 2);
    for (unsigned i = 0; i < 2; i++) {
        sem_t done;
        assert_int_equal(sem_init(&done, 0, 0), 0);
        struct where where = {.done = &done};
        amb_mail_post(&w->shards[i]->inbox, &where.mail, where_arrived);
        while (sem_wait(&done) != 0) {
        }
        (void)sem_destroy(&done);
        assert_int_equal(amb_cpus_count(&where.cpus), 1);
        assert_true(amb_cpus_has(&where.cpus, w->config->server.cpu[i]));
        assert_int_equal(where.at, w->config->server.cpu[i]);
    }
    assert_int_not_equal(w->config->server.cpu[0], w->config->server.cpu[1]);
}

/* A processor that has gone since the configuration was read. */
static void test_a_worker_that_cannot_be_bound_does_not_start(void **state)
{
    (void)state;
    struct amb_config_machine machine = try_machine;
    amb_cpus_add(&machine.cpus, AMB_CPUS_MAX - 1);
    struct amb_config_source source = try_source(SMALL "server = { cpus = \"8191\"; };");
    source.machine = &machine;
    struct amb_config *config = try_accept_source(&source);
    struct amb_membudget budget = {.max = config->memory.host.size};
    struct amb_worker worker;
    assert_int_equal(amb_worker_init(&worker, 0, config, &budget), AMB_OK);
    assert_int_equal(amb_worker_start(&worker), AMB_EINVAL);
    amb_worker_stop(&worker);
    amb_worker_fini(&worker);
    amb_config_destroy(&config);
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
        cmocka_unit_test_setup_teardown(test_a_bound_worker_runs_on_its_processor_alone,
                                        setup_bound, teardown),
        cmocka_unit_test(test_a_worker_that_cannot_be_bound_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
