/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's log. UCX prints on standard output, which is never ours: brokerd's has one line, a tool's
 * its results, and a program that uses libamb has its own. So a handler of UCX's log gives its
 * lines to amb_log; without a sink there (libamb) they end here.
 *
 * A program may use UCX itself, and reads in its log what concerns it. There only those lines are
 * taken that UCX says while one of our calls is in it (AMB_UCX_OURS), and those of UCX's own thread
 * where UCX came with us. Whoever sets UCX_LOG_FILE wants UCX's log as it is: nothing is taken.
 *
 * Nothing can be taken before UCX is loaded; that prints nothing by itself (1.13.1, 1.22), unless
 * UCX_LOG_LEVEL asks for it.
 * Threads: any. Memory: formats on the caller's stack.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <ucp/api/ucp.h>

extern _Thread_local unsigned amb_ucx_depth; /* of our calls in UCX, on this thread */
extern _Thread_local bool amb_ucx_is_hushed; /* what UCX says now is expected */

static inline void amb_ucx_log_leave(const unsigned *depth)
{
    amb_ucx_depth = *depth;
}

/* To the end of this block UCX runs on this thread for us: what it says is ours to log. */
#define AMB_UCX_OURS                                                                               \
    __attribute__((cleanup(amb_ucx_log_leave), unused)) const unsigned amb_ucx_ours =              \
        amb_ucx_depth++

/* All of this process is ours: every line is taken. Before there are threads. */
void amb_ucx_log_take_all(void);
/* UCX has just been loaded. was_there: by somebody else. False: its log is left alone. */
bool amb_ucx_log_is_wanted(bool was_there);

/* The handler, for ucs_log_push_handler; of ucs/debug/log_def.h, which is not C17. 0: the line ends
 * here, 1: the handlers that were there before get it. */
int amb_ucx_log_line(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                     const ucs_log_component_config_t *component, const char *message, va_list ap)
    __attribute__((format(printf, 6, 0)));
