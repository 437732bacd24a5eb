/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of a local set-up: its environment, its processors, its pipes.
 * Threads: one. Memory: none.
 */
#pragma once

#include "tools/ctl/local/cores.h"
#include "tools/ctl/local/gpus.h"
#include "tools/ctl/local/local.h"

#include <sys/types.h>

struct amb_rank_start {
    const struct amb_local *local;
    const struct amb_local_gpus *gpus;
    const struct amb_local_cores *cores; /* NULL: any */
    unsigned rank, count;
};

/* The URL of the private broker. */
void amb_rank_url(const struct amb_local *local, char *out, size_t size);

/*
 * Starts it, the leader of a process group of its own, which the kernel kills when the caller ends.
 * out_fd, err_fd: its standard output and error, to be closed by the caller. A command that is not
 * there is said on err_fd and ends with 127, one that cannot be run with 126. Returns the process;
 * -1: errno has the reason. Does not wait.
 */
pid_t amb_rank_start(const struct amb_rank_start *start, int *out_fd, int *err_fd);
