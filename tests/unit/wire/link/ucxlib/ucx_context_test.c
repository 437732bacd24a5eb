/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context, a worker and registered memory. Each call of UCX fails at each of its turns. The
 * failure is told, nothing is left, and the next try is well.
 */
#include "wire/link/ucxlib/ucx_context.h"

#include "wire/link/ucx/ucx_worker.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_prove.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* NAME(arguments' types and names), (arguments): calls whose status may be an error. */
#define FAILING(CALL)                                                                              \
    CALL(ucp_config_read, (const char *prefix, const char *file, ucp_config_t **config),           \
         (prefix, file, config))                                                                   \
    CALL(ucp_config_modify, (ucp_config_t * config, const char *name, const char *value),          \
         (config, name, value))                                                                    \
    CALL(ucp_init_version,                                                                         \
         (unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,  \
          ucp_context_h *context),                                                                 \
         (major, minor, params, config, context))                                                  \
    CALL(ucp_context_query, (ucp_context_h context, ucp_context_attr_t * attr), (context, attr))   \
    CALL(ucp_worker_create,                                                                        \
         (ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker),         \
         (context, params, worker))                                                                \
    CALL(ucp_worker_query, (ucp_worker_h worker, ucp_worker_attr_t * attr), (worker, attr))        \
    CALL(ucp_worker_set_am_recv_handler,                                                           \
         (ucp_worker_h worker, const ucp_am_handler_param_t *param), (worker, param))              \
    CALL(ucp_worker_get_efd, (ucp_worker_h worker, int *fd), (worker, fd))                         \
    CALL(ucp_mem_map,                                                                              \
         (ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh),             \
         (context, params, memh))

#define MEANT_TO_FAIL 3u /* ucp_worker_create of ucx_prove.c */
#define TRIES_MAX 200u   /* turns of one call in all of this */

enum failing {
#define NUMBER(name, parameters, arguments) FAIL_##name,
    FAILING(NUMBER)
#undef NUMBER
    FAIL_COUNT,
};
static const char *const names[FAIL_COUNT] = {
#define NAME(name, parameters, arguments) [FAIL_##name] = #name,
    FAILING(NAME)
#undef NAME
};

static struct amb_ucx_api real;
static enum failing chosen;
static unsigned turn, turns; /* that fails; so far */

static bool fails(enum failing call)
{
    return call == chosen && ++turns == turn;
}

#define WRAP(name, parameters, arguments)                                                          \
    static ucs_status_t fail_##name parameters                                                     \
    {                                                                                              \
        return fails(FAIL_##name) ? UCS_ERR_NO_MEMORY : real.name arguments;                       \
    }
FAILING(WRAP)
#undef WRAP

static enum amb_status use_ucx(void)
{
    static char memory[1 << 16];
    struct amb_ucx_options options = {.net_devices = "lo", .tls = "tcp,self"};
    struct amb_ucx_context *context = NULL;
    struct amb_ucx_worker *worker = NULL;
    struct amb_link_mem *mem = NULL;
    char error[256] = "";
    amb_ucx_segment_sizes(&options.tx_seg, &options.rx_seg);
    enum amb_status status = amb_ucx_context_create(&options, error, sizeof(error), &context);
    if (status == AMB_OK) {
        status = amb_ucx_worker_create(context, true, &worker);
    } else if (error[0] == '\0') {
        _exit(3); /* A sentence is owed. */
    }
    if (status == AMB_OK) {
        status = amb_ucx_register(context, memory, sizeof(memory), &mem);
    }
    amb_ucx_unregister(&mem);
    amb_ucx_worker_destroy(&worker);
    amb_ucx_context_destroy(&context);
    return status;
}

/* In a process of its own: UCX is there once, and so is the proof. */
static void fail_each_turn(enum failing call)
{
    if (!amb_ucx_load()) {
        _exit(77);
    }
    real = amb_ucx_api;
#define INSTALL(name, parameters, arguments) amb_ucx_api.name = fail_##name;
    FAILING(INSTALL)
#undef INSTALL
    chosen = call;
    for (turn = 1; turn <= TRIES_MAX; turn++) {
        turns = 0;
        enum amb_status status = use_ucx();
        bool has_failed = turns >= turn;
        /* Without an answer to that question UCX is taken to know nothing of GPU memory. One worker
         * of the proof is meant to fail. */
        bool is_harmless = call == FAIL_ucp_context_query ||
                           (call == FAIL_ucp_worker_create && turn == MEANT_TO_FAIL);
        if (has_failed && !is_harmless && status == AMB_OK) {
            _exit(4);
        }
        if (!has_failed) {
            bool is_asked = turn > 1 || call == FAIL_ucp_context_query; /* from 1.19 on */
            _exit(!is_asked ? 5 : status == AMB_OK ? 0 : 6);
        }
    }
    _exit(7);
}

static void test_each_call_may_fail_at_each_turn(void **state)
{
    (void)state;
    for (unsigned call = 0; call < FAIL_COUNT; call++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fail_each_turn((enum failing)call);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            skip();
        }
        if (status != 0) {
            fail_msg("%s: status %x", names[call], (unsigned)status);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_may_fail_at_each_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
