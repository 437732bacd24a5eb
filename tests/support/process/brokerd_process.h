/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A brokerd of its own process, for tests that look at it from outside: its descriptors, its CPU
 * time, whether it lives. Errors end the test program.
 * Threads: one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct brokerd {
    pid_t pid;
    char folder[64];
    char socket_path[96];
    char log_path[96]; /* its standard error */
    uint16_t tcp_port;
};

/* Prints the message, ends the process with 1. Brokers die with it. */
_Noreturn void test_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Starts it on a Unix socket in a folder of its own and on 127.0.0.1, with a small memory; returns
 * when it is ready. options: "key=value", ended by NULL. descriptors: RLIMIT_NOFILE, 0: as it is.
 */
void brokerd_start(struct brokerd *brokerd, const char *program, const char *const *options,
                   unsigned descriptors);
/* TERM; it has to end with 0. Removes the folder. */
void brokerd_stop(struct brokerd *brokerd);
/*
 * A program that looks at it meanwhile: tests/support/observer.py. command: the program and its
 * options, ended by NULL. The last look ends with brokerd_observer_end, to which a wrong answer is
 * an error.
 */
pid_t brokerd_observer_start(const struct brokerd *brokerd, char *const *command);
void brokerd_observer_end(pid_t observer);
bool brokerd_is_alive(const struct brokerd *brokerd);
unsigned brokerd_fds(const struct brokerd *brokerd);
/* Waits up to 5 s until it has at most that many open. Returns how many it has. */
unsigned brokerd_await_fds(const struct brokerd *brokerd, unsigned count);
/* User and system time so far, in ms. */
int64_t brokerd_cpu_ms(const struct brokerd *brokerd);
unsigned brokerd_log_lines(const struct brokerd *brokerd);

/* -1: errno says why. Blocking sockets. */
int brokerd_connect(const struct brokerd *brokerd, bool is_unix);
