/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX, loaded when the first ucx link is wanted and not before. A process that speaks over a Unix
 * socket or a plain stream never has UCX in memory. So it has no memory hooks, no thread of UCX's,
 * and no clock calibration at its start (0.4 s on a busy machine). Nothing can clash with another
 * UCX that a Python module has brought along. Where no UCX is installed, all other links work.
 *
 * The library may be older or newer than the headers that this is built with (ucx_release.h). Every
 * function of UCX is called through amb_ucx_api, after amb_ucx_load has said yes.
 * Threads: any; loading happens once.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/link/ucxlib/ucx_find.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <ucp/api/ucp.h>

/* Of libucs, the same in all releases; its header, ucs/config/global_opts.h, is not C17. */
ucs_status_t ucs_global_opts_set_value(const char *name, const char *value);
ucs_status_t ucs_global_opts_get_value(const char *name, char *value, size_t max);
/* The same of ucs/debug/log_def.h: one more handler of log lines, asked before those that are
 * there. It answers 0 if the line shall end there, else 1. */
typedef int (*amb_ucx_log_fn)(const char *file, unsigned line, const char *function,
                              ucs_log_level_t level, const ucs_log_component_config_t *component,
                              const char *message, va_list ap);
void ucs_log_push_handler(amb_ucx_log_fn handler);

/* ADD(name): one line a function, of libucp or of libucs. */
#define AMB_UCX_API(ADD)                                                                           \
    ADD(ucp_am_recv_data_nbx)                                                                      \
    ADD(ucp_am_send_nbx)                                                                           \
    ADD(ucp_cleanup)                                                                               \
    ADD(ucp_context_query)                                                                         \
    ADD(ucp_config_modify)                                                                         \
    ADD(ucp_config_print)                                                                          \
    ADD(ucp_config_read)                                                                           \
    ADD(ucp_config_release)                                                                        \
    ADD(ucp_ep_close_nbx)                                                                          \
    ADD(ucp_ep_create)                                                                             \
    ADD(ucp_ep_evaluate_perf)                                                                      \
    ADD(ucp_ep_flush_nbx)                                                                          \
    ADD(ucp_ep_print_info)                                                                         \
    ADD(ucp_ep_query)                                                                              \
    ADD(ucp_get_version)                                                                           \
    ADD(ucp_init_version)                                                                          \
    ADD(ucp_mem_map)                                                                               \
    ADD(ucp_mem_unmap)                                                                             \
    ADD(ucp_request_free)                                                                          \
    ADD(ucp_worker_arm)                                                                            \
    ADD(ucp_worker_create)                                                                         \
    ADD(ucp_worker_destroy)                                                                        \
    ADD(ucp_worker_get_efd)                                                                        \
    ADD(ucp_worker_progress)                                                                       \
    ADD(ucp_worker_query)                                                                          \
    ADD(ucp_worker_release_address)                                                                \
    ADD(ucp_worker_set_am_recv_handler)                                                            \
    ADD(ucs_global_opts_get_value)                                                                 \
    ADD(ucs_global_opts_set_value)                                                                 \
    ADD(ucs_log_push_handler)                                                                      \
    ADD(ucs_status_string)

struct amb_ucx_api {
#define AMB_UCX_MEMBER(name) __typeof__(&name) name;
    AMB_UCX_API(AMB_UCX_MEMBER)
#undef AMB_UCX_MEMBER
};

extern struct amb_ucx_api amb_ucx_api;

/*
 * Loads that library, with those that lie beside it; once a process, from ucx_process.c alone.
 * library->release is set to what it says itself. ENOTSUP with a sentence: it cannot be loaded,
 * lacks a function, is too old, or a part of another UCX is here already.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_api_load(struct amb_ucx_library *library, char *error,
                                                size_t error_size);
/* Takes back UCX's handlers of SIGSEGV and friends, and of SIGHUP; in programs of ours only. */
void amb_ucx_signals_release(void);
