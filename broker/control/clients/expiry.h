/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of TLS that will expire: told 30 days, 7 days and 1 day before, and when they have. Each
 * step once for each file in use, in the log and as the event $SYS.tls.expiring.
 * Threads: the control thread. Memory: none of its own.
 */
#pragma once

#include "wire/tls/tls_context.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_control;

/* Zero-initialised. */
struct amb_expiry {
    const struct amb_tls_context *context; /* that the steps are of */
    uint8_t told[AMB_TLS_FILES];           /* the last step of each */
    int64_t due_ns;                        /* when it is looked at again */
};

/* 0: it is far; 1: 30 days or less; 2: 7; 3: 1; 4: it is over. */
unsigned amb_expiry_step(int64_t expires_s, int64_t now_s);
/* Whole days that are left, 0 or less where it is over. */
int64_t amb_expiry_days(int64_t expires_s, int64_t now_s);
/* A file of the context that has reached another step, which now counts as told; false: none has.
 */
bool amb_expiry_next(struct amb_expiry *expiry, const struct amb_tls_context *context,
                     int64_t now_s, enum amb_tls_file *out);
/* Tells of all of them, now and then. */
void amb_expiry_look(struct amb_control *control);
