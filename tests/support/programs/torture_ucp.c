/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libucp whose Nth call fails, once, or aborts. It stands in a folder beside UCX's other
 * libraries. The true one is called libucp-true.so.0 there. A program is told of that folder by
 * transports.library. A test writes into the file $AMB_TORTURE_UCP_FILE, at any time, and reads
 * there: four numbers of 8 bytes in the machine's order.
 *
 *     0   how many calls until one fails; 0: none does
 *     1   how many there were
 *     2   how many have failed
 *     3   not 0: the next ucp_worker_progress ends with abort(), as an assertion of UCX's does
 *
 * Calls that cannot fail, and those that only give something back, are passed on uncounted.
 *
 * Threads: any. Memory: none.
 */
#include "tests/support/programs/mapped.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define SHOWN __attribute__((visibility("default")))
#define TRUE_NAME "libucp-true.so.0"

enum {
    DUE,
    SEEN,
    FAILED,
    ABORTS,
    NUMBERS
};

static _Atomic int64_t before[NUMBERS]; /* until there is a file */
static _Atomic int64_t *numbers = before;
static void *true_library;

/* The file that lies beside this one. */
static void *open_true(void)
{
    Dl_info info;
    char path[4096];
    if (dladdr(before, &info) == 0 || info.dli_fname == NULL) {
        return NULL;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    int folder = slash == NULL ? 0 : (int)(slash - info.dli_fname) + 1;
    (void)snprintf(path, sizeof(path), "%.*s" TRUE_NAME, folder, info.dli_fname);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

__attribute__((constructor)) static void begin(void)
{
    true_library = open_true();
    if (true_library == NULL) {
        (void)fprintf(stderr, "torture: %s\n", dlerror());
        abort();
    }
    numbers = map_named("AMB_TORTURE_UCP_FILE", sizeof(before), before);
}

/* Is it this call's turn? */
static bool is_due(void)
{
    (void)atomic_fetch_add_explicit(&numbers[SEEN], 1, memory_order_relaxed);
    if (atomic_load_explicit(&numbers[DUE], memory_order_relaxed) <= 0 ||
        atomic_fetch_sub_explicit(&numbers[DUE], 1, memory_order_relaxed) != 1) {
        return false;
    }
    (void)atomic_fetch_add_explicit(&numbers[FAILED], 1, memory_order_relaxed);
    return true;
}

/* The function of that name behind this one. Threads that come here at once find the same. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (next == NULL) {                                                                            \
        void *symbol = dlsym(true_library, #name);                                                 \
        memcpy(&next, &symbol, sizeof(symbol));                                                    \
    }

/* A call that fails with `bad`. */
#define CALL(type, bad, name, parameters, ...)                                                     \
    SHOWN type name parameters                                                                     \
    {                                                                                              \
        NEXT(name)                                                                                 \
        return is_due() ? (bad) : next(__VA_ARGS__);                                               \
    }

#define PASS(type, name, parameters, ...)                                                          \
    SHOWN type name parameters                                                                     \
    {                                                                                              \
        NEXT(name)                                                                                 \
        return next(__VA_ARGS__);                                                                  \
    }

/* ... that answers nothing. */
#define GIVE(name, parameters, ...)                                                                \
    SHOWN void name parameters                                                                     \
    {                                                                                              \
        NEXT(name)                                                                                 \
        next(__VA_ARGS__);                                                                         \
    }

#define NO_MEMORY UCS_ERR_NO_MEMORY
#define NO_REQUEST UCS_STATUS_PTR(UCS_ERR_NO_MEMORY)

CALL(ucs_status_t, NO_MEMORY, ucp_config_read,
     (const char *prefix, const char *file, ucp_config_t **config), prefix, file, config)
CALL(ucs_status_t, NO_MEMORY, ucp_config_modify,
     (ucp_config_t * config, const char *name, const char *value), config, name, value)
CALL(ucs_status_t, NO_MEMORY, ucp_init_version,
     (unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
      ucp_context_h *context),
     major, minor, params, config, context)
CALL(ucs_status_t, NO_MEMORY, ucp_context_query,
     (ucp_context_h context, ucp_context_attr_t *attributes), context, attributes)
CALL(ucs_status_t, NO_MEMORY, ucp_worker_create,
     (ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker), context,
     params, worker)
CALL(ucs_status_t, NO_MEMORY, ucp_worker_query,
     (ucp_worker_h worker, ucp_worker_attr_t *attributes), worker, attributes)
CALL(ucs_status_t, NO_MEMORY, ucp_worker_get_efd, (ucp_worker_h worker, int *fd), worker, fd)
CALL(ucs_status_t, NO_MEMORY, ucp_worker_set_am_recv_handler,
     (ucp_worker_h worker, const ucp_am_handler_param_t *param), worker, param)
CALL(ucs_status_t, NO_MEMORY, ucp_ep_create,
     (ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep), worker, params, ep)
CALL(ucs_status_t, NO_MEMORY, ucp_ep_query, (ucp_ep_h ep, ucp_ep_attr_t *attributes), ep,
     attributes)
CALL(ucs_status_t, NO_MEMORY, ucp_ep_evaluate_perf,
     (ucp_ep_h ep, const ucp_ep_evaluate_perf_param_t *param,
      ucp_ep_evaluate_perf_attr_t *attributes),
     ep, param, attributes)
CALL(ucs_status_t, NO_MEMORY, ucp_mem_map,
     (ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memory), context,
     params, memory)
CALL(ucs_status_ptr_t, NO_REQUEST, ucp_am_send_nbx,
     (ucp_ep_h ep, unsigned id, const void *header, size_t header_length, const void *buffer,
      size_t count, const ucp_request_param_t *param),
     ep, id, header, header_length, buffer, count, param)
CALL(ucs_status_ptr_t, NO_REQUEST, ucp_am_recv_data_nbx,
     (ucp_worker_h worker, void *desc, void *buffer, size_t count,
      const ucp_request_param_t *param),
     worker, desc, buffer, count, param)
CALL(ucs_status_ptr_t, NO_REQUEST, ucp_ep_flush_nbx,
     (ucp_ep_h ep, const ucp_request_param_t *param), ep, param)

GIVE(ucp_cleanup, (ucp_context_h context), context)
GIVE(ucp_config_print,
     (const ucp_config_t *config, FILE *stream, const char *title, ucs_config_print_flags_t flags),
     config, stream, title, flags)
GIVE(ucp_config_release, (ucp_config_t * config), config)
PASS(ucs_status_ptr_t, ucp_ep_close_nbx, (ucp_ep_h ep, const ucp_request_param_t *param), ep, param)
GIVE(ucp_ep_print_info, (ucp_ep_h ep, FILE *stream), ep, stream)
GIVE(ucp_get_version, (unsigned *major, unsigned *minor, unsigned *patch), major, minor, patch)
PASS(ucs_status_t, ucp_mem_unmap, (ucp_context_h context, ucp_mem_h memory), context, memory)
GIVE(ucp_request_free, (void *request), request)
PASS(ucs_status_t, ucp_worker_arm, (ucp_worker_h worker), worker)
GIVE(ucp_worker_destroy, (ucp_worker_h worker), worker)
GIVE(ucp_worker_release_address, (ucp_worker_h worker, ucp_address_t *address), worker, address)

SHOWN unsigned ucp_worker_progress(ucp_worker_h worker)
{
    NEXT(ucp_worker_progress)
    if (atomic_load_explicit(&numbers[ABORTS], memory_order_relaxed) != 0 &&
        atomic_exchange(&numbers[ABORTS], 0) != 0) {
        abort();
    }
    return next(worker);
}
