/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver's call fails at each of its turns, in a process each: with too little memory, and with
 * an error that loses the device. After cmocka.h. Threads: one. Memory: none.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* round: 0 if all was well with an error of that code at that turn. */
static inline void torture_turns(int (*round)(unsigned turn, int code), unsigned turns,
                                 unsigned step)
{
    for (unsigned turn = 1; turn <= turns; turn += step) {
        for (int sticky = 0; sticky < 2; sticky++) {
            pid_t pid = fork();
            if (pid == 0) {
                _exit(round(turn, sticky ? 719 : 2));
            }
            int status = 0;
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    }
}
