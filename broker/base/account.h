/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts: the use that one user, or one tenant, makes of the broker over all of its sessions, and
 * the limits of its quota. A user's account has its tenant's above it, and a charge
 * to the one is a charge to both.
 *
 *   amb_account_full   before an object is made: would it be too many?
 *   amb_account_add    it is made
 *   amb_account_sub    it is gone
 *
 * Nothing is asked for a message. Limits may change while the account is in use. So it may have
 * more than they allow, until objects go.
 *
 * Threads: any; counters are atomic, and no order between them is needed. Names and `told` are the
 * control thread's. Memory: embedded in the user or tenant.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rows of a quota. The first ones are those of enum amb_share (party.h). */
enum amb_quota {
    AMB_QUOTA_CONNECTIONS,
    AMB_QUOTA_SUBSCRIPTIONS,
    AMB_QUOTA_NAMES,
    AMB_QUOTA_PAIRS,
    AMB_QUOTA_TOPICS,
    AMB_QUOTA_PUBLISHERS,
    AMB_QUOTA_COUNT,
};

#define AMB_QUOTA_NONE UINT64_MAX /* no limit */
#define AMB_QUOTA_NAME_MAX 64u
#define AMB_QUOTA_TEXT_MAX 192u /* any refusal fits */

struct amb_account {
    struct amb_account *above;          /* the tenant's; NULL: is one, or is of none */
    const char *kind;                   /* "user" or "tenant"; static */
    char quota[AMB_QUOTA_NAME_MAX + 1]; /* the name of its quota; "": it has none */
    _Atomic uint64_t used[AMB_QUOTA_COUNT], limit[AMB_QUOTA_COUNT], refused[AMB_QUOTA_COUNT];
    uint8_t told[AMB_QUOTA_COUNT]; /* per cent of the limit that an event has told: 0, 75 or 100 */
};

/* Without limits. kind: static. */
void amb_account_init(struct amb_account *account, const char *kind, struct amb_account *above);
/* The limits of a quota of that name are in force from here on. */
void amb_account_limit(struct amb_account *account, const char *quota,
                       const uint64_t limits[AMB_QUOTA_COUNT]);

/* The account in which `more` are too many, its own or the one above; NULL: there is room. NULL is
 * allowed. */
struct amb_account *amb_account_full(struct amb_account *account, enum amb_quota row,
                                     uint64_t more);
/* The same, where the answer is a refusal, which is counted. */
struct amb_account *amb_account_refuses(struct amb_account *account, enum amb_quota row,
                                        uint64_t more);
/* How many more of them there may be. NULL is allowed. */
uint64_t amb_account_left(const struct amb_account *account, enum amb_quota row);
void amb_account_add(struct amb_account *account, enum amb_quota row, uint64_t more);
void amb_account_sub(struct amb_account *account, enum amb_quota row, uint64_t less);

/* The key of a row in the configuration. */
const char *amb_quota_key(enum amb_quota row);
/* "limit: connections = 8 of the user's quota \"small\"": for the client that is refused. */
const char *amb_quota_text(const struct amb_account *account, enum amb_quota row,
                           char out[AMB_QUOTA_TEXT_MAX]);

static inline uint64_t amb_account_used(const struct amb_account *account, enum amb_quota row)
{
    return atomic_load_explicit(&account->used[row], memory_order_relaxed);
}
static inline uint64_t amb_account_limit_of(const struct amb_account *account, enum amb_quota row)
{
    return atomic_load_explicit(&account->limit[row], memory_order_relaxed);
}
