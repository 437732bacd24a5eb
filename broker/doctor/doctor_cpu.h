/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers against the processors that they have, and the clock that they read, for the doctor.
 * Threads: that of doctor_files.h, or the main one before a start. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct amb_doctor_cpu {
    const char *root;        /* "", or, in tests, a folder that has proc and sys */
    unsigned workers;        /* server.workers, resolved */
    int64_t (*now_ns)(void); /* the clock that workers read */
};

/* Appends rows of quota, affinity, clock. */
void amb_doctor_cpu(const struct amb_doctor_cpu *look, json_t *rows);
