/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exit codes of the tools, and the one way they speak of errors: "broker-ctl: <what>: <why>" on
 * standard error. The codes are those of sysexits.h, so that scripts can tell failures apart.
 * Threads: any. Memory: none.
 */
#pragma once

#include <amb/types.h>

enum amb_exit {
    AMB_EXIT_OK = 0,
    AMB_EXIT_SLOWER = 1,       /* broker-bench compare: more than the tolerance */
    AMB_EXIT_WARNING = 1,      /* broker-ctl check, as Nagios has it; */
    AMB_EXIT_CRITICAL = 2,     /* ... the same */
    AMB_EXIT_UNKNOWN = 3,      /* ... the same */
    AMB_EXIT_USAGE = 64,       /* wrong arguments */
    AMB_EXIT_DATA = 65,        /* a topic, a file or a message that cannot be taken */
    AMB_EXIT_UNAVAILABLE = 69, /* no broker, or it went away */
    AMB_EXIT_SOFTWARE = 70,    /* the system refused something, or a fault of ours */
    AMB_EXIT_TIMEOUT = 75,     /* the time given has passed */
    AMB_EXIT_FORBIDDEN = 77,   /* not allowed */
    AMB_EXIT_CONFIG = 78,      /* a configuration is refused */
};

enum amb_exit amb_exit_of(enum amb_status status);

/* The name that begins each line of amb_tool_error; static text. Set first thing in main. */
void amb_tool_name(const char *name);
/* One line on standard error. Characters of the text that would drive a terminal become '?'. */
void amb_tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
