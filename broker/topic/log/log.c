/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/log/log.h"

#include "broker/shard/entry.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define LOG_ENTRIES_FIRST UINT64_C(16)

void amb_log_init(struct amb_log *log)
{
    memset(log, 0, sizeof(*log));
    log->next_seq = 1;
}

void amb_log_fini(struct amb_log *log)
{
    amb_assert(log->lo == log->hi);
    free(log->cells);
    log->cells = NULL;
}

static enum amb_status log_grow(struct amb_log *log)
{
    uint64_t cells = log->cells == NULL ? LOG_ENTRIES_FIRST : (log->mask + 1) * 2;
    if (cells > AMB_LOG_ENTRIES_MAX) {
        return AMB_ELIMIT;
    }
    struct amb_entry **grown = calloc(cells, sizeof(struct amb_entry *));
    if (grown == NULL) {
        return AMB_ENOMEM;
    }
    for (uint64_t i = log->lo; i < log->hi; i++) {
        grown[i & (cells - 1)] = log->cells[i & log->mask];
    }
    free(log->cells);
    log->cells = grown;
    log->mask = cells - 1;
    return AMB_OK;
}

enum amb_status amb_log_append(struct amb_log *log, struct amb_entry *entry, uint64_t first_seq)
{
    amb_assert(entry->count > 0);
    amb_assert(first_seq == 0 || first_seq >= log->next_seq);
    if (log->cells == NULL || log->hi - log->lo > log->mask) {
        enum amb_status status = log_grow(log);
        if (status != AMB_OK) {
            return status;
        }
    }
    if (first_seq == 0) {
        first_seq = log->next_seq;
        entry->above = log->above;
    }
    entry->first_seq = first_seq;
    entry->log_offset = log->bytes_appended;
    log->next_seq = entry->first_seq + entry->count;
    log->cells[log->hi & log->mask] = entry;
    log->hi++;
    log->bytes += amb_entry_charge(entry);
    log->bytes_appended += amb_entry_charge(entry);
    log->msgs += entry->count;
    return AMB_OK;
}

struct amb_entry *amb_log_at(const struct amb_log *log, uint64_t position)
{
    amb_debug_assert(position >= log->lo && position < log->hi);
    return log->cells[position & log->mask];
}

void amb_log_replace(struct amb_log *log, uint64_t position, struct amb_entry *entry)
{
    struct amb_entry *former = amb_log_at(log, position);
    amb_assert(former->first_seq == entry->first_seq && former->count == entry->count);
    log->bytes += amb_entry_charge(entry) - amb_entry_charge(former); /* modulo 2^64 */
    entry->tally = former->tally;
    former->tally = NULL;
    log->cells[position & log->mask] = entry;
}

struct amb_entry *amb_log_pop(struct amb_log *log)
{
    amb_assert(log->lo < log->hi);
    struct amb_entry *entry = log->cells[log->lo & log->mask];
    log->cells[log->lo & log->mask] = NULL;
    log->lo++;
    log->bytes -= amb_entry_charge(entry);
    log->msgs -= entry->count;
    return entry;
}

uint64_t amb_log_bytes_from(const struct amb_log *log, uint64_t position)
{
    if (position >= log->hi) {
        return 0;
    }
    return log->bytes_appended - amb_log_at(log, position)->log_offset;
}

void amb_log_check(const struct amb_log *log)
{
    amb_assert(log->lo <= log->hi);
    uint64_t bytes = 0, msgs = 0, seq = 0;
    for (uint64_t i = log->lo; i < log->hi; i++) {
        const struct amb_entry *entry = amb_log_at(log, i);
        amb_assert(entry->refs > 0);
        amb_assert(entry->first_seq >= seq);
        seq = entry->first_seq + entry->count;
        bytes += amb_entry_charge(entry);
        msgs += entry->count;
    }
    amb_assert(bytes == log->bytes && msgs == log->msgs);
    amb_assert(seq == 0 || seq == log->next_seq);
}
