/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter of broker-ctl sub: messages and bytes of each second. Jitter is that of RFC 3550: a
 * running average of changes between two messages. Their times from the broker are compared.
 * Threads: one. Memory: none.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct amb_meter {
    int64_t since_ns; /* the row's start, monotonic */
    uint64_t messages, bytes, gaps;
    bool is_gap_unknown, has_transit;
    int64_t transit_ns; /* of the last message */
    double jitter_ns;
};

void amb_meter_init(struct amb_meter *meter, int64_t now_ns);
/* A message of `len` bytes, with `lost` ones before it (UINT64_MAX: unknown), that came at now_ns.
 * The broker says that it took the message at time_ns. That may be any number: clocks of two
 * machines differ, and a peer may lie. */
void amb_meter_add(struct amb_meter *meter, uint64_t len, uint64_t lost, int64_t now_ns,
                   int64_t time_ns);
/* The row, if its second is over, or if it is the last one and not empty; a new reference. NULL: it
 * goes on. */
json_t *amb_meter_row(struct amb_meter *meter, int64_t now_ns, bool is_last);
/* The row as text, below a head if it has none yet. */
void amb_meter_print(const json_t *row, bool wants_head, FILE *out);
