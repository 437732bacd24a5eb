/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's loop: one wait for signals, ends of processes, output, room for output, and the end
 * of broker-ctl. The keeper hears of these while anything else blocks. Everything that takes time
 * is a number of turns of it.
 *
 *   broker-ctl ── signals ──► turn ── signals ──► ranks
 *   sinks ◄── lines ──────────┘  └──► abandon: broker-ctl was killed
 *
 * Threads: one. Memory: fixed, but for the lists that amb_start_gpus makes.
 */
#pragma once

#include "tools/ctl/local/gpus.h"
#include "tools/ctl/local/lines.h"
#include "tools/ctl/local/local.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pollfd;

#define AMB_LOOP_KILLED_NS INT64_C(1000000000) /* for the end of processes that were killed */
#define AMB_LOOP_OF_SIGNAL 128                 /* a code of 128 + N: ended by signal N */
#define AMB_LOOP_LINES 5u /* places of the list for poll that come before those of the lines */

struct amb_loop {
    const struct amb_local *local;
    struct amb_local_gpus gpus;
    struct amb_sink out, err;
    int signal_fd, alive_fd, ready_fd;
    pid_t broker; /* 0: none */
    pid_t asker;  /* of the CUDA driver; 0: none */
    bool is_broker_wanted;
    unsigned count, left; /* ranks: all, and those that have not ended */
    pid_t *ranks;         /* 0: has ended */
    /* The broker's, then of each rank its output and its errors. */
    struct amb_lines *lines;
    unsigned line_count, first_line;
    struct pollfd *fds;
    int64_t limit_ns; /* of the whole run; INT64_MAX: none */
    int code;         /* of the first failure */
    bool has_code;
    bool is_ending;
    bool is_told;    /* to end, by a signal or its time */
    int64_t kill_ns; /* once it ends: then what is left is killed */
    unsigned terms;  /* signals to end that have come */
};

/* Signals that are passed on, and SIGCHLD. Those that this process ignores are left alone. */
void amb_local_signals(sigset_t *out);

/* A line of ours among those of the processes. */
void amb_loop_say(struct amb_loop *loop, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The first code stays. */
void amb_loop_set_code(struct amb_loop *loop, int code);
/* To each rank that has not ended, and to its group. */
void amb_loop_signal(const struct amb_loop *loop, int number);
/* The ranks are asked to end, by that signal, and have a while for that. Harmless twice. */
void amb_loop_begin_end(struct amb_loop *loop, int number);

/* Waits for something to do, at most until then or for a second, and does it. extra_fd (-1: none):
 * true if it can be read. */
bool amb_loop_turn(struct amb_loop *loop, int extra_fd, int64_t until_ns);
/* Reads up to `size` bytes, to the end or, if so wanted, to a line feed, while the loop runs. -1:
 * it was told to end, or the time has passed. */
ssize_t amb_loop_await(struct amb_loop *loop, int fd, void *out, size_t size, bool is_line,
                       int64_t limit_ns);
