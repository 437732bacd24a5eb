/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a process, seen from outside: CPU time and memory.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* CPU time of all threads, user and system, ns; 0 if there is no such process. */
int64_t amb_proc_cpu_ns(pid_t pid);

struct amb_proc_memory {
    uint64_t rss_bytes;      /* resident now */
    uint64_t peak_rss_bytes; /* the most there ever was */
    uint64_t anon_bytes;     /* of rss_bytes what is neither file nor shared: without segments */
};

/* Zeros if there is no such process. */
void amb_proc_memory(pid_t pid, struct amb_proc_memory *out);

/* CPU time of the whole machine spent on processes or stolen from it, ns. */
int64_t amb_proc_machine_busy_ns(void);
