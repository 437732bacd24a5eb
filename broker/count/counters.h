/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's counters: a mapped file, or private memory of the same shape. The metric table, a
 * block for the control thread and one for each worker, and slots of objects (wire/counters).
 *
 *   worker ──► its block, slots of numbers      control ──► its block, slots of texts
 *
 * A file in memory (tmpfs) costs its writers nothing. On a disk the kernel would hold up a store
 * while it writes that page out: `auto` does not take such a folder.
 *
 * Threads: made and ended where the broker starts and stops. Each block has one writer. Memory: the
 * file's, allocated whole at the start; nothing later can fail.
 */
#pragma once

#include "broker/count/broker_stats.h"
#include "broker/count/shard_stats.h"
#include "wire/base/status.h"
#include "wire/counters/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct amb_loss_record;

#define AMB_COUNTERS_OBJECTS_DEFAULT 16384u
#define AMB_COUNTERS_PATH_MAX 1024u
#define AMB_COUNTERS_BLOCK_BYTES AMB_COUNTERS_PAGE
#define AMB_COUNTERS_LINES 256u   /* distinct log lines: log_lines.h */
#define AMB_COUNTERS_LOSSES 2048u /* of all workers: broker/delivery/reader/losses.h */

struct amb_counters_options {
    const char *path;       /* NULL: private memory, because of why */
    const char *why;        /* static; "none" and others: for the doctor */
    bool must_be_in_memory; /* auto: not on a disk */
    mode_t mode;            /* of the file */
    gid_t group;            /* (gid_t)-1: the process's */
    unsigned workers;
    uint32_t objects;       /* slots of each kind */
    uint32_t lines, losses; /* slots of distinct log lines, and of all workers' losses */
    const char *name, *version, *ucx;
    uint64_t epoch;
    int64_t now_ns, real_ns;
};

struct amb_counters {
    void *base;
    size_t size;
    int fd; /* of the file, locked; -1: private memory */
    struct amb_counters_header *header;
    struct amb_numbers_slot *numbers;
    struct amb_texts_slot *texts;
    struct amb_texts_slot *lines, *losses; /* sections of their own */
    struct amb_loss_record *loss_records;  /* the workers' of `losses`: loss_book.h */
    uint32_t slots;
    _Atomic uint64_t *taken;          /* of the slots of numbers, by bit */
    _Atomic uint32_t from;            /* there may be a free one from this word of `taken` on */
    uint32_t *free_texts;             /* numbers of slots, */
    uint32_t free_count;              /* ... so many */
    char path[AMB_COUNTERS_PATH_MAX]; /* "": private memory */
    char why[AMB_COUNTERS_WHY_MAX];   /* ... and the reason */
};

/* A file of that name that is there becomes NAME.old, unless a broker holds it. Where the file
 * cannot be had, the counters are in private memory and `why` has the reason. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_counters_create(const struct amb_counters_options *options,
                                                   struct amb_counters *out);
/* The file stays, and says that its broker has ended. Harmless on a zeroed one. */
void amb_counters_destroy(struct amb_counters *counters);

struct amb_broker_stats *amb_counters_broker(const struct amb_counters *counters);
struct amb_shard_stats *amb_counters_shard(const struct amb_counters *counters, unsigned worker);
/* A sign of life; one that is older than the last changes nothing. now_ns: of the monotonic clock;
 * real_ns: since 1970. Any thread. */
void amb_counters_beat(const struct amb_counters *counters, int64_t now_ns, int64_t real_ns);
/* The file is for the broker's own user alone from here on: users have come, and it has names of
 * all tenants. Any thread. */
void amb_counters_hide(const struct amb_counters *counters);
/* The counters, for a reader in this process. */
void amb_counters_view(const struct amb_counters *counters, struct amb_counters_image *out);
