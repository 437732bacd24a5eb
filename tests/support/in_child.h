/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a test in a process of its own. The code under test leaves something behind for good: a
 * library that was loaded, a device that has failed.
 * Threads: one. Memory: none.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs body in a child: the number that it returns, 0 to 255. -1: a signal has ended it. */
static inline int in_child(int (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(body());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
