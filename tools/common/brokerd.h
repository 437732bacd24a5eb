/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The brokerd that belongs to a tool, as a child of the tool's for the time of a run.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define AMB_BROKERD_PATH_MAX 600u

/* The path of the one that was built or installed together with this program; else "brokerd", for
 * the one in PATH. */
void amb_brokerd_find(char *out, size_t size);

#define AMB_BROKERD_WORDS_MAX 160u /* of its command line */

struct amb_brokerd_start {
    const char *path;           /* NULL: as amb_brokerd_find says */
    const char *const *listen;  /* URLs, */
    unsigned listen_count;      /* at most 4 */
    const char *const *options; /* for -o, */
    unsigned option_count;      /* at most 64 */
    int log_fd;                 /* for its standard error; stays the caller's */
    int death_signal;           /* that it gets when the calling thread ends */
};

/* Starts `brokerd --dev`. *ready_fd is for its standard output, "ready URL ..." and nothing more,
 * to be closed by the caller. A program that is not there is said on log_fd, and ends with 127.
 * Returns the process; -1: errno has the reason. Does not wait. */
pid_t amb_brokerd_start(const struct amb_brokerd_start *start, int *ready_fd);
