/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of this machine that decide how fast payloads can travel, beside those of GPUs: for the
 * doctor. All is read from /proc, /sys and /dev, and nothing is loaded or opened for it.
 * Threads: that of doctor_files.h, or the main one before a start; amb_doctor_counters is for the
 * control thread. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_counters;

struct amb_doctor_machine {
    const char *root;           /* "", or, in tests, a folder that has dev, proc and sys */
    const char *const *trusted; /* interfaces and devices of transports.trusted */
    size_t trusted_count;
    bool has_rdma;         /* the broker uses RDMA devices */
    uint32_t connections;  /* server.max_connections, as the limit of descriptors allows it */
    uint64_t memory_bytes; /* memory.host.size */
};

/* Appends rows of interfaces, ports of RDMA devices (doctor_host.h has the rest of them), memlock,
 * /dev/shm, descriptors, huge pages, memory. */
void amb_doctor_machine(const struct amb_doctor_machine *look, json_t *rows);
/* Appends a row about the file of the counters; nothing without counters (NULL). */
void amb_doctor_counters(const struct amb_counters *counters, json_t *rows);
