/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning of tests on the fake driver: a GPU that is busy, and a broker's memory on one.
 *
 *   exporter_start ─► the process exporter.c, its range in `exporter.range` ─► exporter_stop
 *   busy_begin ─► a copy waits on a stream ─► fakecuda_hold(false): it runs ─► busy_end
 *
 * A test that starts one has AMB_EXPORTER, and AMB_FAKECUDA in the environment, from CMake.
 * Threads: one. Memory: none.
 */
#pragma once

#include "client/conn/gpu_range.h"
#include "client/memory/gpu.h"
#include "tests/fakecuda/fakecuda.h"

#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef AMB_FAKECUDA /* By itself, see lint-headers. */
#define AMB_FAKECUDA ""
#endif
#ifndef AMB_EXPORTER
#define AMB_EXPORTER ""
#endif

extern char **environ;

/* ---- a busy GPU ---- */

struct busy {
    struct amb_cuda *cuda;
    struct amb_cuda_scope scope;
    uint64_t memory;
    void *stream;
};

static inline void busy_begin(struct busy *busy, struct amb_gpu *gpu)
{
    struct amb_cuda *cuda = amb_gpu_cuda(gpu);
    busy->cuda = cuda;
    assert_int_equal(amb_cuda_enter(cuda, &busy->scope), AMB_OK);
    assert_int_equal(amb_cuda_stream_create(cuda, &busy->stream), AMB_OK);
    assert_int_equal(amb_cuda_alloc(cuda, 8192, &busy->memory), AMB_OK);
    fakecuda_hold(true);
    assert_int_equal(amb_cuda_copy(cuda, busy->memory, busy->memory + 4096, 64, busy->stream),
                     AMB_OK);
}

static inline void busy_end(struct busy *busy)
{
    amb_cuda_free(busy->cuda, busy->memory);
    amb_cuda_stream_destroy(busy->cuda, busy->stream);
    amb_cuda_leave(&busy->scope);
}

/* ---- a broker's memory ---- */

struct exporter {
    pid_t pid;
    int from;
    struct amb_gpu_range range;
};

static inline int exporter_start(struct exporter *exporter, uint64_t pool)
{
    int fds[2];
    char text[24];
    char *argv[] = {(char[]){AMB_EXPORTER}, NULL};
    posix_spawn_file_actions_t actions;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)pool);
    (void)setenv("EXPORTER_POOL", text, 1);
    if (pipe(fds) != 0 || posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    (void)posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    int rc = posix_spawn(&exporter->pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    exporter->from = fds[0];
    ssize_t n = rc == 0 ? read(exporter->from, &exporter->range, sizeof(exporter->range)) : 0;
    return n == (ssize_t)sizeof(exporter->range) ? 0 : -1;
}

static inline void exporter_kill(struct exporter *exporter)
{
    assert_int_equal(kill(exporter->pid, SIGKILL), 0);
    assert_int_equal(waitpid(exporter->pid, NULL, 0), exporter->pid);
    exporter->pid = 0;
}

static inline int exporter_stop(struct exporter *exporter)
{
    if (exporter->pid != 0) {
        exporter_kill(exporter);
    }
    (void)close(exporter->from);
    return 0;
}

/* Processes on one machine; main's beginning. machine: 64 bytes, to be unlinked at the end. */
static inline void fake_machine(char *machine, size_t size, const char *name)
{
    (void)snprintf(machine, size, "/tmp/amb-%s-%d", name, (int)getpid());
    (void)setenv("FAKECUDA_MACHINE", machine, 1);
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
}
