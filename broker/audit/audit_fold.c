/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/audit/audit_fold.h"

#include "wire/base/hash.h"

#include <stdio.h>
#include <string.h>

/* Its key: of all that it says, or of who says it. */
static uint64_t key_of(const struct amb_audit_folds *folds, const struct amb_audit_entry *entry,
                       bool is_fine)
{
    char text[sizeof(entry->user) + sizeof(entry->tenant) + sizeof(entry->address) +
              sizeof(entry->what) + sizeof(entry->why) + 16];
    /* The port of an address is of no matter. */
    const char *colon = strrchr(entry->address, ':');
    size_t host = colon == NULL ? strlen(entry->address) : (size_t)(colon - entry->address);
    int len = snprintf(text, sizeof(text), "%d|%s|%s|%.*s|%s|%s", is_fine ? (int)entry->event : -1,
                       entry->user, entry->tenant, (int)host, entry->address,
                       is_fine ? entry->what : "", is_fine ? entry->why : "");
    uint64_t key = amb_siphash24(folds->secret, text, (size_t)len);
    return key == 0 ? 1 : key;
}

static struct amb_audit_fold *find(struct amb_audit_folds *folds, uint64_t key, unsigned from,
                                   unsigned to, struct amb_audit_fold **vacant)
{
    *vacant = NULL;
    for (unsigned i = from; i < to; i++) {
        struct amb_audit_fold *fold = &folds->all[i];
        if (fold->key == key) {
            return fold;
        }
        if (fold->key == 0 && *vacant == NULL) {
            *vacant = fold;
        }
    }
    return NULL;
}

/* True: it is the first of its kind, and has the place. */
static bool enter(struct amb_audit_fold *fold, uint64_t key, const struct amb_audit_entry *entry,
                  int64_t now_ns)
{
    bool is_first = fold->key == 0;
    if (is_first) {
        fold->key = key;
        fold->count = 0;
        fold->until_ns = now_ns + AMB_AUDIT_FOLD_NS;
    } else {
        fold->count++;
    }
    fold->entry = *entry;
    return is_first;
}

bool amb_audit_fold_take(struct amb_audit_folds *folds, const struct amb_audit_entry *entry,
                         int64_t now_ns)
{
    if (!folds->is_made) {
        amb_random_bytes(folds->secret, sizeof(folds->secret));
        folds->is_made = true;
    }
    struct amb_audit_fold *vacant;
    uint64_t key = key_of(folds, entry, true);
    struct amb_audit_fold *fold = find(folds, key, 0, AMB_AUDIT_FOLDS_FINE, &vacant);
    if (fold == NULL) {
        fold = vacant;
    }
    if (fold != NULL) {
        return enter(fold, key, entry, now_ns);
    }
    /* Many kinds at once: the user and the address are enough to know. */
    key = key_of(folds, entry, false);
    fold = find(folds, key, AMB_AUDIT_FOLDS_FINE, AMB_AUDIT_FOLDS - 1, &vacant);
    if (fold == NULL) {
        fold = vacant != NULL ? vacant : &folds->all[AMB_AUDIT_FOLDS - 1];
    }
    return enter(fold, key, entry, now_ns);
}

const struct amb_audit_entry *amb_audit_fold_due(struct amb_audit_folds *folds, int64_t now_ns)
{
    for (unsigned i = 0; i < AMB_AUDIT_FOLDS; i++) {
        struct amb_audit_fold *fold = &folds->all[i];
        if (fold->key == 0 || fold->until_ns > now_ns) {
            continue;
        }
        fold->key = 0;
        if (fold->count > 0) {
            fold->entry.count = fold->count;
            fold->entry.is_mixed = i >= AMB_AUDIT_FOLDS_FINE;
            return &fold->entry;
        }
    }
    return NULL;
}

int64_t amb_audit_fold_next_ns(const struct amb_audit_folds *folds)
{
    int64_t next_ns = INT64_MAX;
    for (unsigned i = 0; i < AMB_AUDIT_FOLDS; i++) {
        const struct amb_audit_fold *fold = &folds->all[i];
        if (fold->key != 0 && fold->until_ns < next_ns) {
            next_ns = fold->until_ns;
        }
    }
    return next_ns;
}
