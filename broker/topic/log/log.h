/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A topic's log: a bounded run of entries, oldest first, and the sequence numbers they carry.
 * Positions count entries since the log began: lo is the oldest kept, hi is where the next goes. A
 * pure structure: the topic decides which entries may be trimmed, and when.
 *
 * Threads: owner. Memory: one array of pointers that doubles up to AMB_LOG_ENTRIES_MAX and never
 * shrinks. Each entry in it counts one reference, taken at append, given back by the caller of pop.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_LOG_ENTRIES_MAX (UINT64_C(1) << 17)

struct amb_entry;

struct amb_log {
    struct amb_entry **cells;
    uint64_t mask; /* cells - 1 */
    uint64_t lo, hi;
    uint64_t next_seq;       /* of the next message; the first message of a topic has 1 */
    uint64_t above;          /* at home: messages of the topic's other priorities so far */
    uint64_t bytes, msgs;    /* kept now; bytes as entries are charged */
    uint64_t bytes_appended; /* ever */
};

void amb_log_init(struct amb_log *log);
/* The entry at a position, below hi, is another one with the same messages. How far
 * readers are behind is still told by what the former was charged. */
void amb_log_replace(struct amb_log *log, uint64_t position, struct amb_entry *entry);
/* The log is empty. */
void amb_log_fini(struct amb_log *log);

/*
 * Appends and takes over the caller's reference. first_seq 0: the next number is given; else it is
 * the entry's own (a shadow log) and must not be behind. ELIMIT, ENOMEM: nothing happened.
 */
AMB_MUST_CHECK enum amb_status amb_log_append(struct amb_log *log, struct amb_entry *entry,
                                              uint64_t first_seq);
/* lo <= position < hi. */
struct amb_entry *amb_log_at(const struct amb_log *log, uint64_t position);
/* Removes the oldest; its reference is the caller's. The log is not empty. */
struct amb_entry *amb_log_pop(struct amb_log *log);
/* Bytes of the entries from position to hi. */
uint64_t amb_log_bytes_from(const struct amb_log *log, uint64_t position);
/* Invariants, for tests and debug builds. */
void amb_log_check(const struct amb_log *log);
