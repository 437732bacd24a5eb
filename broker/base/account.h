/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts: the use that one user, or one tenant, makes of the broker over all of its sessions, and
 * the limits of its quota. A user's account has its tenant's above it, and a charge to the one is a
 * charge to both.
 *
 *   amb_account_full   before an object is made: would it be too many?
 *   amb_account_add    it is made
 *   amb_account_sub    it is gone
 *
 * Nothing is asked for a message. Limits may change while the account is in use. So it may have
 * more than they allow, until objects go.
 *
 * Threads: any; counters are atomic, and no order between them is needed. Names, `told` and
 * `refused_seen` are the control thread's. Memory: embedded in the user or tenant.
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
    AMB_QUOTA_HOST_BYTES,
    AMB_QUOTA_GPU_BYTES,
    AMB_QUOTA_IN_MSGS,
    AMB_QUOTA_IN_BYTES,
    AMB_QUOTA_REQUESTS,
    AMB_QUOTA_FILTER_TESTS,
    AMB_QUOTA_HEAP,
    AMB_QUOTA_LEASED,
    AMB_QUOTA_MAPPED,
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
    _Atomic uint64_t passed[AMB_QUOTA_COUNT]; /* of a rate: all that has been billed */
    _Atomic int64_t paid_ns[AMB_QUOTA_COUNT]; /* ... and when the bill is over */
    uint64_t seen[AMB_QUOTA_COUNT];           /* of `passed`, by amb_account_rates */
    uint64_t refused_seen[AMB_QUOTA_COUNT];   /* of `refused`, when an event was last looked for */
    uint8_t told[AMB_QUOTA_COUNT]; /* per cent of the limit that an event has told: 0, 75 or 100 */
};

/* Without limits. kind: static. */
void amb_account_init(struct amb_account *account, const char *kind, struct amb_account *above);
/* The limits of a quota of that name are in force from here on. The bill of a rate that is another
 * one now is over. */
void amb_account_limit(struct amb_account *account, const char *quota,
                       const uint64_t limits[AMB_QUOTA_COUNT]);

/* The account in which `more` are too many, its own or the one above; NULL: there is room. NULL is
 * allowed. */
struct amb_account *amb_account_full(struct amb_account *account, enum amb_quota row,
                                     uint64_t more);
/* The same, where the answer is a refusal, which is counted. */
struct amb_account *amb_account_refuses(struct amb_account *account, enum amb_quota row,
                                        uint64_t more);
/* The account whose limit is less than `value`, its own or the one above; NULL: none. NULL is
 * allowed. */
const struct amb_account *amb_account_past(const struct amb_account *account, enum amb_quota row,
                                           uint64_t value);
/* May there be `more`? `spare` of those that are charged are not in use, and count as free. Where
 * more than the limit is in use there is no room, not even for 0. */
bool amb_account_has_room(const struct amb_account *account, enum amb_quota row, uint64_t more,
                          uint64_t spare);
/* How many more of them there may be. NULL is allowed. */
uint64_t amb_account_left(const struct amb_account *account, enum amb_quota row);
void amb_account_add(struct amb_account *account, enum amb_quota row, uint64_t more);
void amb_account_sub(struct amb_account *account, enum amb_quota row, uint64_t less);

/*
 * Rates, which are limits of so many a second: IN_MSGS, IN_BYTES, REQUESTS, FILTER_TESTS. A bill
 * takes its time at the rate that the limit says. So much as AMB_QUOTA_BURST_NS allows is free
 * after a rest. With a limit of 0 nothing is.
 */
#define AMB_QUOTA_BURST_NS INT64_C(50000000)
void amb_account_bill(struct amb_account *account, enum amb_quota row, uint64_t more,
                      int64_t now_ns);
/* Is its bill, or that of the account above, not over yet? */
bool amb_account_is_late(const struct amb_account *account, enum amb_quota row, int64_t now_ns);
/* Is a bill of its own not over yet? Then it must not be forgotten. */
bool amb_account_owes(const struct amb_account *account, int64_t now_ns);
/* Somebody begins to wait for that: counted as refused, where the bill is. */
void amb_account_note_late(struct amb_account *account, enum amb_quota row, int64_t now_ns);
/* The control thread, now and then: `used` of rates is what came in a second, of the last since_ns.
 */
void amb_account_rates(struct amb_account *account, int64_t since_ns);

/* Is it a limit of so many a second? */
bool amb_quota_is_rate(enum amb_quota row);
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
/* Its own, or that of the account above. A message asks, so it is short without optimisation, too.
 */
static inline bool amb_account_has_limit(const struct amb_account *account, enum amb_quota row)
{
    do {
        if (atomic_load_explicit(&account->limit[row], memory_order_relaxed) != AMB_QUOTA_NONE) {
            return true;
        }
        account = account->above;
    } while (account != NULL);
    return false;
}
