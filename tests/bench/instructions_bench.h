/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of instructions-bench that both of its modes have. They are a broker in this process, a
 * clock that stands still, and the ends of a run.
 *
 * Threads: main, unless a function says more. Memory: given back by the end of the process.
 */
#pragma once

#include "broker/worker/worker.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>

/* For functions that stand in for libc's, in this program and in libamb. */
#define BENCH_STAND_IN __attribute__((visibility("default")))

/* The broker's only worker, and where it listens. */
extern struct amb_worker bench_worker;
extern char bench_url[96];

/* Says what failed, and ends the process with 1. */
_Noreturn void bench_fail(const char *what, enum amb_status status);
void bench_must(const char *what, enum amb_status status);

/* From here on CLOCK_MONOTONIC stands still, but for bench_pass. Any thread may read it. */
void bench_freeze(void);
void bench_pass(int64_t ns);

/* A broker whose worker runs in a thread of its own, or is turned by main. */
void bench_start_broker(bool has_worker);
/* Removes its socket and ends the process with 0. */
_Noreturn void bench_end(void);

/* instructions-bench waits LINK ROUNDS PART; the exit status. */
int bench_waits(int argc, char **argv);
