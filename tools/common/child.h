/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that does not outlive the thread that has started it, and a pipe from it.
 * Threads: any. Memory: none.
 */
#pragma once

#include <sys/types.h>

/* As fork. *fd is the end of the pipe to read, to be closed by the caller. In the child, where 0 is
 * returned, it is the end to write. The child gets death_signal when the calling thread ends. If
 * that was so at once, the child has ended with 127. -1: errno has the reason. Does not wait. */
pid_t amb_child_fork(int death_signal, int *fd);
