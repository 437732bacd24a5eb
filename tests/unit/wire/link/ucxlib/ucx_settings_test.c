/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of UCX: what a user may not choose, what a user's environment cannot change, and
 * which releases talk to each other. Segment sizes are proved by workers, as contexts do it.
 */
#include "wire/link/ucx/ucx_state.h"
#include "wire/link/ucx/ucx_worker.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_prove.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct amb_ucx_options plain_options(void)
{
    struct amb_ucx_options options = {.net_devices = "lo"};
    amb_ucx_segment_sizes(&options.tx_seg, &options.rx_seg);
    return options;
}

static void expect_refused(const struct amb_ucx_options *options, const char *word)
{
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    enum amb_status status = amb_ucx_context_create(options, error, sizeof(error), &context);
    assert_true(status == AMB_EINVAL || status == AMB_EUCX);
    assert_null(context);
    if (strstr(error, word) == NULL) {
        fail_msg("'%s' does not name '%s'", error, word);
    }
}

static void test_context_needs_named_devices(void **state)
{
    (void)state;
    struct amb_ucx_options options = plain_options();
    options.net_devices = NULL;
    expect_refused(&options, "trusted");
    options.net_devices = "";
    expect_refused(&options, "trusted");
    options.net_devices = "all";
    expect_refused(&options, "trusted");
    options.net_devices = "^eth0";
    expect_refused(&options, "trusted");
    options.net_devices = "nosuchdevice0";
    expect_refused(&options, "nosuchdevice0");
}

static void test_shared_memory_lanes_are_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {"posix",      "tcp,sysv", "cma", "xpmem",
                                        "tcp,shm,rc", "^posix",   "all", "sm"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct amb_ucx_options options = plain_options();
        options.tls = lists[i];
        expect_refused(&options, "transport");
    }
}

static void test_forced_and_unknown_settings_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"TLS",         "NET_DEVICES",     "TCP_RX_SEG_SIZE",
                                        "TX_SEG_SIZE", "TCP_TX_SEG_SIZE", "TCP_PORT_RANGE",
                                        "PORT_RANGE",  "NO_SUCH_THING"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct amb_ucx_setting setting = {names[i], "64K"};
        struct amb_ucx_options options = plain_options();
        options.settings = &setting;
        options.setting_count = 1;
        expect_refused(&options, names[i]);
    }
    const struct amb_ucx_setting wrong = {"RNDV_THRESH", "many"};
    struct amb_ucx_options options = plain_options();
    options.settings = &wrong;
    options.setting_count = 1;
    expect_refused(&options, "RNDV_THRESH");
}

static void test_own_settings_are_taken(void **state)
{
    (void)state;
    const struct amb_ucx_setting own[] = {{"RNDV_THRESH", "192K"}, {"TCP_MAX_POLL", "8"}};
    struct amb_ucx_options options = plain_options();
    options.settings = own;
    options.setting_count = 2;
    options.port_range = "20000-30000";
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    assert_int_equal(amb_ucx_context_create(&options, error, sizeof(error), &context), AMB_OK);
    amb_ucx_context_destroy(&context);
    assert_null(context);
}

static void test_sizes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct amb_ucx_options options = plain_options();
    options.rx_seg = options.tx_seg / 2;
    expect_refused(&options, "make no sense");
}

/* In a child: UCX and the proof are once a process. */
static void in_child(void (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!amb_ucx_load()) {
            _exit(2);
        }
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void require(bool holds)
{
    if (!holds) {
        _exit(1);
    }
}

/* A worker's room for a header is its TX_SEG_SIZE less a little; prove() sees to RX_SEG_SIZE. */
static void check_sizes_hold(void)
{
    struct amb_ucx_options options = plain_options();
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    options.tls = "tcp";
    require(amb_ucx_context_create(&options, error, sizeof(error), &context) == AMB_OK);
    require(amb_ucx_context_prove(context, error, sizeof(error)) == AMB_OK);
    struct amb_ucx_worker *worker = NULL;
    require(amb_ucx_worker_create(context, false, &worker) == AMB_OK);
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    require(amb_ucx_api.ucp_worker_query(worker->handle, &attr) == UCS_OK);
    require(attr.max_am_header < options.tx_seg && attr.max_am_header > options.tx_seg - 4096);
    amb_ucx_worker_destroy(&worker);
    amb_ucx_context_destroy(&context);
}

static void with_hostile_environment(void)
{
    (void)setenv("UCX_TCP_RX_SEG_SIZE", "4M", 1);
    (void)setenv("UCX_TCP_TX_SEG_SIZE", "4K", 1);
    (void)setenv("UCX_RX_SEG_SIZE", "2M", 1);
    (void)setenv("UCX_TLS", "posix,sysv", 1);
    (void)setenv("UCX_NET_DEVICES", "eth0", 1);
    check_sizes_hold();
}

static void with_our_environment(void)
{
    (void)setenv("UCX_TCP_RX_SEG_SIZE", "4M", 1);
    (void)setenv("UCX_TLS", "posix,sysv", 1);
    (void)setenv("UCX_KEEPALIVE_INTERVAL", "3s", 1);
    struct amb_ucx_options options = plain_options();
    options.use_environment = true;
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    require(amb_ucx_context_create(&options, error, sizeof(error), &context) == AMB_OK);
    require(strcmp(getenv("UCX_TCP_RX_SEG_SIZE"), "1048576") == 0);
    require(strcmp(getenv("UCX_NET_DEVICES"), "lo") == 0);
    require(strstr(getenv("UCX_TLS"), "posix") == NULL);
    require(strcmp(getenv("UCX_KEEPALIVE_INTERVAL"), "3s") == 0);
    amb_ucx_context_destroy(&context);
    check_sizes_hold();
}

static void without_environment(void)
{
    struct amb_ucx_options options = plain_options();
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    require(amb_ucx_context_create(&options, error, sizeof(error), &context) == AMB_OK);
    require(getenv("UCX_TCP_RX_SEG_SIZE") == NULL && getenv("UCX_TLS") == NULL);
    amb_ucx_context_destroy(&context);
}

static void test_environment_cannot_change_segment_sizes(void **state)
{
    (void)state;
    in_child(with_hostile_environment);
}

static void test_programs_of_ours_set_the_environment_and_yield_elsewhere(void **state)
{
    (void)state;
    in_child(with_our_environment);
}

static void test_library_never_sets_the_environment(void **state)
{
    (void)state;
    in_child(without_environment);
}

static void signals_are_ours(void)
{
    struct amb_ucx_options options = plain_options();
    options.use_environment = true;
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    require(amb_ucx_context_create(&options, error, sizeof(error), &context) == AMB_OK);
    struct sigaction action;
    require(sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    amb_ucx_context_destroy(&context);
}

static void test_programs_of_ours_keep_their_signals(void **state)
{
    (void)state;
    in_child(signals_are_ours);
}

static struct amb_ucx_api real;
static _Atomic int inside, inits;

/* Alone in UCX, for long enough that others would be seen. */
static void enter(void)
{
    require(++inside == 1);
    for (unsigned i = 0; i < 1000; i++) {
        (void)sched_yield();
    }
}

static ucs_status_t alone_read(const char *prefix, const char *file, ucp_config_t **config)
{
    enter();
    ucs_status_t ucs = real.ucp_config_read(prefix, file, config);
    inside--;
    return ucs;
}

static ucs_status_t alone_init(unsigned major, unsigned minor, const ucp_params_t *params,
                               const ucp_config_t *config, ucp_context_h *context)
{
    enter();
    inits++;
    ucs_status_t ucs = real.ucp_init_version(major, minor, params, config, context);
    inside--;
    return ucs;
}

static ucs_status_t alone_worker(ucp_context_h context, const ucp_worker_params_t *params,
                                 ucp_worker_h *worker)
{
    enter();
    ucs_status_t ucs = real.ucp_worker_create(context, params, worker);
    inside--;
    return ucs;
}

static void alone_cleanup(ucp_context_h context)
{
    enter();
    real.ucp_cleanup(context);
    inside--;
}

static void *connect_once(void *barrier)
{
    struct amb_ucx_options options = plain_options();
    struct amb_ucx_context *context = NULL;
    struct amb_ucx_worker *worker = NULL;
    (void)pthread_barrier_wait(barrier);
    require(amb_ucx_context_create(&options, NULL, 0, &context) == AMB_OK);
    require(amb_ucx_worker_create(context, true, &worker) == AMB_OK);
    amb_ucx_worker_destroy(&worker);
    amb_ucx_context_destroy(&context);
    return NULL;
}

static void with_threads(void)
{
    enum {
        THREADS = 4,
        PROOF = 3
    };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    require(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    real = amb_ucx_api;
    amb_ucx_api.ucp_config_read = alone_read;
    amb_ucx_api.ucp_init_version = alone_init;
    amb_ucx_api.ucp_worker_create = alone_worker;
    amb_ucx_api.ucp_cleanup = alone_cleanup;
    for (unsigned i = 0; i < THREADS; i++) {
        require(pthread_create(&threads[i], NULL, connect_once, &barrier) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        require(pthread_join(threads[i], NULL) == 0);
    }
    require(inits == THREADS + PROOF); /* The sizes are proved once. */
    amb_ucx_api = real;
}

static void test_one_thread_at_a_time_configures_ucx(void **state)
{
    (void)state;
    in_child(with_threads);
}

/* ---- cuda_ipc ---- */

static const char *const without_it = "tcp,self,rc,dc,ud,cuda_copy,gdr_copy";

static void test_one_release_is_told_to_do_without_cuda_ipc(void **state)
{
    (void)state;
    static const uint32_t others[] = {0,
                                      AMB_UCX_RELEASE(1, 13, 1),
                                      AMB_UCX_RELEASE(1, 21, 0),
                                      AMB_UCX_RELEASE(1, 22, 1),
                                      AMB_UCX_RELEASE(1, 23, 0),
                                      AMB_UCX_RELEASE(2, 22, 0)};
    struct amb_ucx_options options = plain_options();
    char lanes[AMB_UCX_TLS_MAX];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_null(amb_ucx_lanes(&options, others[i], lanes));
        assert_string_equal(lanes, "tcp,self,rc,dc,ud,cuda_copy,cuda_ipc,gdr_copy");
    }
    const char *why = amb_ucx_lanes(&options, AMB_UCX_RELEASE(1, 22, 0), lanes);
    assert_non_null(why);
    assert_non_null(strstr(why, "11744"));
    assert_string_equal(lanes, without_it);
}

static void test_lanes_that_are_chosen_lose_cuda_ipc_alone(void **state)
{
    (void)state;
    static const struct {
        const char *tls, *lanes;
        bool is_changed;
    } lists[] = {
        {"self,tcp,cuda_ipc,cuda_copy,gdr_copy", "self,tcp,cuda_copy,gdr_copy", true},
        {"self,cuda_ipc", "self", true},
        {"cuda_ipc,self", "self", true},
        {"self,tcp,cuda_copy", "self,tcp,cuda_copy", false},
    };
    char lanes[AMB_UCX_TLS_MAX];
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct amb_ucx_options options = plain_options();
        options.tls = lists[i].tls;
        assert_int_equal(amb_ucx_lanes(&options, AMB_UCX_RELEASE(1, 22, 0), lanes) != NULL,
                         lists[i].is_changed);
        assert_string_equal(lanes, lists[i].lanes);
        assert_null(amb_ucx_lanes(&options, AMB_UCX_RELEASE(1, 22, 1), lanes));
        assert_string_equal(lanes, lists[i].tls);
    }
}

static void test_a_user_that_asks_for_cuda_ipc_has_it(void **state)
{
    (void)state;
    char lanes[AMB_UCX_TLS_MAX];
    struct amb_ucx_options options = plain_options();
    options.wants_cuda_ipc = true;
    assert_null(amb_ucx_lanes(&options, AMB_UCX_RELEASE(1, 22, 0), lanes));
    assert_non_null(strstr(lanes, "cuda_ipc"));
    options.wants_cuda_ipc = false;
    assert_int_equal(setenv("UCX_TLS", "tcp,cuda_ipc", 1), 0);
    assert_null(amb_ucx_lanes(&options, AMB_UCX_RELEASE(1, 22, 0), lanes));
    assert_non_null(strstr(lanes, "cuda_ipc"));
    /* Of other lanes nothing follows, and none of them is taken. */
    static const char *const others[] = {
        "", "all", "^cuda_ipc", "^sysv,cuda_ipc", "tcp,posix,cuda_ipcx", "cuda"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(setenv("UCX_TLS", others[i], 1), 0);
        assert_non_null(amb_ucx_lanes(&options, AMB_UCX_RELEASE(1, 22, 0), lanes));
        assert_string_equal(lanes, without_it);
    }
    assert_int_equal(unsetenv("UCX_TLS"), 0);
}

static void lanes_of_our_processes(void)
{
    struct amb_ucx_options options = plain_options();
    struct amb_ucx_context *context = NULL;
    options.use_environment = true;
    require(amb_ucx_context_create(&options, NULL, 0, &context) == AMB_OK);
    bool has_it = strstr(getenv("UCX_TLS"), "cuda_ipc") != NULL;
    require(has_it == (amb_ucx_release() != AMB_UCX_RELEASE(1, 22, 0)));
    amb_ucx_context_destroy(&context);
}

static void test_the_release_that_is_there_is_asked(void **state)
{
    (void)state;
    in_child(lanes_of_our_processes);
}

/* ---- what dead clients pin ---- */

static uint32_t pretended;
static unsigned regions_said, sizes_said;

static void pretend_release(unsigned *major, unsigned *minor, unsigned *patch)
{
    *major = pretended >> 16;
    *minor = pretended >> 8 & 0xffu;
    *patch = pretended & 0xffu;
}

/* As a UCX without CUDA modules answers. */
static ucs_status_t refuse_bounds(ucp_config_t *config, const char *name, const char *value)
{
    if (strcmp(name, "CUDA_IPC_CACHE_MAX_REGIONS") == 0) {
        regions_said++;
        require(strcmp(value, "16") == 0);
        return UCS_ERR_INVALID_PARAM;
    }
    if (strcmp(name, "CUDA_IPC_CACHE_MAX_SIZE") == 0) {
        sizes_said++;
        require(strcmp(value, "256M") == 0);
        return UCS_ERR_INVALID_PARAM;
    }
    require(strstr(name, "CACHE_MAX") == NULL);
    return real.ucp_config_modify(config, name, value);
}

static void expect_bounds(const struct amb_ucx_options *options, uint32_t release, unsigned regions,
                          unsigned sizes)
{
    ucp_config_t *config = NULL;
    char error[256] = "";
    require(unsetenv("UCX_TLS") == 0); /* That of the last one. */
    pretended = release;
    regions_said = 0;
    sizes_said = 0;
    amb_ucx_process_lock();
    require(amb_ucx_config_open(options, error, sizeof(error), &config) == AMB_OK);
    amb_ucx_process_unlock();
    real.ucp_config_release(config);
    require(regions_said == regions && sizes_said == sizes);
}

static void with_bounds(void)
{
    struct amb_ucx_options options = plain_options();
    real = amb_ucx_api;
    amb_ucx_api.ucp_get_version = pretend_release;
    amb_ucx_api.ucp_config_modify = refuse_bounds;
    expect_bounds(&options, AMB_UCX_RELEASE(1, 21, 0), 0, 0); /* Not the program's own UCX. */
    options.use_environment = true;
    expect_bounds(&options, AMB_UCX_RELEASE(1, 20, 1), 0, 0);
    expect_bounds(&options, AMB_UCX_RELEASE(1, 21, 0), 1, 1);
    expect_bounds(&options, AMB_UCX_RELEASE(1, 22, 1), 1, 1);
    expect_bounds(&options, AMB_UCX_RELEASE(1, 22, 0), 0, 0); /* It does without cuda_ipc. */
    options.wants_cuda_ipc = true;
    expect_bounds(&options, AMB_UCX_RELEASE(1, 22, 0), 1, 1);
    options.tls = "tcp,self";
    expect_bounds(&options, AMB_UCX_RELEASE(1, 21, 0), 0, 0);
    options.tls = NULL;
    require(setenv("UCX_CUDA_IPC_CACHE_MAX_SIZE", "inf", 1) == 0);
    expect_bounds(&options, AMB_UCX_RELEASE(1, 21, 0), 1, 0);
    require(setenv("UCX_CUDA_IPC_CACHE_MAX_REGIONS", "1000", 1) == 0);
    expect_bounds(&options, AMB_UCX_RELEASE(1, 21, 0), 0, 0);
}

static void test_what_dead_clients_pin_is_bounded(void **state)
{
    (void)state;
    in_child(with_bounds);
}

static void test_some_lanes_reach_a_gpu(void **state)
{
    (void)state;
    static const char *const reach[] = {"tcp/lo cuda_ipc/cuda", "cuda_ipc/cuda", "rc_mlx5/mlx5_0:1",
                                        "tcp/eth0 rc_verbs/mlx5_0:1",
                                        "dc_mlx5/mlx5_1:1 self/memory"};
    static const char *const do_not[] = {
        "",      "tcp/lo", "tcp/lo cuda_copy/cuda", "ud_mlx5/mlx5_0:1", "tcp/rc_0", "tcp/cuda_ipc",
        "rcx/a", "tcp/lo "};
    for (size_t i = 0; i < sizeof(reach) / sizeof(reach[0]); i++) {
        assert_true(amb_ucx_lanes_reach_gpus(reach[i]));
    }
    for (size_t i = 0; i < sizeof(do_not) / sizeof(do_not[0]); i++) {
        assert_false(amb_ucx_lanes_reach_gpus(do_not[i]));
    }
}

static void test_a_bound_that_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"4k", "-1", " 1", "x", "99999999999999999999999"};
    const struct amb_ucx_options options = plain_options();
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(setenv(AMB_UCX_GPU_MIN_ENV, words[i], 1), 0);
        expect_refused(&options, AMB_UCX_GPU_MIN_ENV);
    }
    assert_int_equal(unsetenv(AMB_UCX_GPU_MIN_ENV), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Children first: they start without a UCX that has done anything. */
        cmocka_unit_test(test_environment_cannot_change_segment_sizes),
        cmocka_unit_test(test_programs_of_ours_set_the_environment_and_yield_elsewhere),
        cmocka_unit_test(test_library_never_sets_the_environment),
        cmocka_unit_test(test_programs_of_ours_keep_their_signals),
        cmocka_unit_test(test_one_thread_at_a_time_configures_ucx),
        cmocka_unit_test(test_the_release_that_is_there_is_asked),
        cmocka_unit_test(test_what_dead_clients_pin_is_bounded),
        cmocka_unit_test(test_context_needs_named_devices),
        cmocka_unit_test(test_shared_memory_lanes_are_refused),
        cmocka_unit_test(test_forced_and_unknown_settings_are_refused_by_name),
        cmocka_unit_test(test_own_settings_are_taken),
        cmocka_unit_test(test_sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(test_one_release_is_told_to_do_without_cuda_ipc),
        cmocka_unit_test(test_lanes_that_are_chosen_lose_cuda_ipc_alone),
        cmocka_unit_test(test_a_user_that_asks_for_cuda_ipc_has_it),
        cmocka_unit_test(test_some_lanes_reach_a_gpu),
        cmocka_unit_test(test_a_bound_that_is_no_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
