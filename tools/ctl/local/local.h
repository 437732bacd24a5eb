/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A local set-up: a private broker, and processes that it serves, all below one process that ends
 * with the last of them.
 *
 *   broker-ctl ─► keeper ─┬─► brokerd
 *    (signals)            ├─► rank 0: COMMAND ─► what it starts
 *                         └─► rank 1: ...
 *
 * The keeper does the work, and broker-ctl waits for it. Either ends all of it when the other one
 * is killed. The keeper sees broker-ctl's end of a pipe go, and broker-ctl adopts what the keeper
 * leaves.
 * Threads: one in each process. Memory: the caller's.
 */
#pragma once

#include "tools/cli/limits.h"
#include "tools/common/folder.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_local {
    char *const *command; /* ends with NULL */
    unsigned count;       /* processes; 0: one for each GPU, and without any GPU one */
    bool needs_gpu;       /* without any it does not start */
    const char *pool;     /* memory.cuda.size of the broker; NULL: none */
    const char *sysfs;    /* where NUMA nodes are looked up: "/sys" */
    const char *brokerd;  /* NULL: the one beside this program, or in PATH */
    const char *options[AMB_LOCAL_OPTIONS_MAX]; /* for brokerd -o */
    unsigned option_count;
    int64_t timeout_ns; /* all is ended then; -1: never */
    char folder[AMB_FOLDER_MAX];
    sigset_t mask;        /* of signals, for the processes */
    bool is_ttou_ignored; /* SIGTTOU, for them, too */
};
