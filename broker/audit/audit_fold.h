/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that repeat. The first one of its kind is written at once. Those that follow within
 * AMB_AUDIT_FOLD_NS are counted, and become one entry with their count. So neither a program that
 * is refused a thousand times a second nor a view that is asked for all the time fills the disk.
 *
 * Kinds are told apart by event, user, address, words and reason. Past AMB_AUDIT_FOLDS_FINE of them
 * the words and the reason do not count any more, and past all places nothing does.
 *
 * Threads: one at a time. Memory: a fixed table.
 */
#pragma once

#include "broker/audit/audit_entry.h"
#include "wire/base/clock.h"

#include <stdbool.h>

#define AMB_AUDIT_FOLD_NS (60 * AMB_NS_PER_SEC)
#define AMB_AUDIT_FOLDS_FINE 192u
#define AMB_AUDIT_FOLDS 256u

struct amb_audit_fold {
    uint64_t key; /* 0: free */
    uint32_t count;
    int64_t until_ns;
    struct amb_audit_entry entry; /* the last one */
};

/* Zero-initialised. */
struct amb_audit_folds {
    struct amb_audit_fold all[AMB_AUDIT_FOLDS];
    uint8_t secret[16]; /* of the keys' hash */
    bool is_made;
};

/* True: write it. False: it has been counted. */
bool amb_audit_fold_take(struct amb_audit_folds *folds, const struct amb_audit_entry *entry,
                         int64_t now_ns);
/* The next that is due by now, with its count; NULL: none. Valid until the next call. */
const struct amb_audit_entry *amb_audit_fold_due(struct amb_audit_folds *folds, int64_t now_ns);
/* When the next one is; INT64_MAX: none. */
int64_t amb_audit_fold_next_ns(const struct amb_audit_folds *folds);
