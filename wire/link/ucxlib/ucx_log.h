/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's log. UCX prints on standard output, which is never ours. brokerd prints one line there, a
 * tool its results, and a program that uses libamb its own text. So a handler of UCX's log gives
 * the lines to amb_log. Without a sink there, as in libamb, the lines end here.
 *
 * A program may use UCX itself, and read UCX's log. There two kinds of lines are taken. The first
 * are those that UCX prints during one of our calls (AMB_UCX_OURS). The second are those of UCX's
 * own thread where libamb has loaded UCX. Where UCX_LOG_FILE is set UCX's log stays as it is, and
 * nothing is taken.
 *
 * Nothing can be taken before UCX is loaded. Loading prints nothing by itself (1.13.1, 1.22),
 * unless UCX_LOG_LEVEL asks for it.
 * Threads: any. Memory: formats on the caller's stack.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <ucp/api/ucp.h>

extern _Thread_local unsigned amb_ucx_depth; /* of our calls in UCX, on this thread */
extern _Thread_local bool amb_ucx_is_hushed; /* lines of UCX are expected now, and dropped */

static inline void amb_ucx_log_leave(const unsigned *depth)
{
    amb_ucx_depth = *depth;
}

/* To the end of this block UCX runs on this thread for us: its lines are ours to log. */
#define AMB_UCX_OURS                                                                               \
    __attribute__((cleanup(amb_ucx_log_leave), unused)) const unsigned amb_ucx_ours =              \
        amb_ucx_depth++

/* All of this process is ours: every line is taken. Before there are threads. */
void amb_ucx_log_take_all(void);
/* UCX has just been loaded. was_there: the program had loaded it before. False: UCX's log is left
 * alone. */
bool amb_ucx_log_is_wanted(bool was_there);

/* The handler, for ucs_log_push_handler; of ucs/debug/log_def.h, which is not C17. 0: the line ends
 * here, 1: the handlers that were there before get it. */
int amb_ucx_log_line(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                     const ucs_log_component_config_t *component, const char *message, va_list ap)
    __attribute__((format(printf, 6, 0)));
