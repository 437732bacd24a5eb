/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of standard input: the program at the other end of the pipe is over. The kernel closes
 * its end, however it dies. One thread sleeps on the descriptor, and drops the bytes that come.
 *
 * Threads: start and stop from one thread; the callback runs on the one that sleeps. Memory: that
 * thread, an eventfd and one descriptor more.
 */
#pragma once

#include "wire/base/status.h"

#include <pthread.h>

typedef void (*amb_eof_fn)(void *arg);

struct amb_eof {
    int fd, stop_fd;
    int own_fd; /* the same file, opened for reads that do not wait; -1: it could not be */
    amb_eof_fn on_end;
    void *arg;
    pthread_t thread;
};

/* Calls on_end once, when nothing more can be read there: its end, or an error, which the log has.
 * The descriptor stays the caller's. *eof must not move. EINTERNAL, with the reason in the log. */
AMB_MUST_CHECK enum amb_status amb_eof_start(struct amb_eof *eof, int fd, amb_eof_fn on_end,
                                             void *arg);
/* Ends the thread, and waits for an on_end that is running: none runs afterwards. */
void amb_eof_stop(struct amb_eof *eof);
