/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and parties: shares of the limits that are the whole broker's.
 *
 *   user   A uid on a Unix socket; all TCP clients are one user. Or one of a users file.
 *          A user has at most limits.user_share per cent of the part that other users leave.
 *          So each user that comes finds something.
 *          Root and the broker's own user may have all.
 *   party  A process on this host, by its pid for as long as it lives.
 *          A process that the broker cannot see is a party for each connection.
 *          Of TCP clients a party is an address.
 *          The next session of a party is charged for what earlier ones left behind:
 *          quarantine, segments that are still mapped, names.
 *
 * Threads: parties are found by the control thread, and counted where a field says; references may
 * be given up anywhere. Memory: one allocation each, and its entry_shares, freed with the last
 * reference; the table holds one, until amb_parties_sweep finds nobody else.
 */
#pragma once

#include "broker/base/account.h"
#include "broker/base/tenant.h"
#include "wire/base/hash.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Per cent of what other parties leave of a limit that one party may have. */
#define AMB_PARTY_SHARE 50u
#define AMB_PARTY_NAMED (UINT64_C(1) << 32) /* with the number of a user of a users file */
#define AMB_PARTY_TCP UINT64_MAX /* the user of all TCP clients here; no uid, not even -1 */

/* Limits of the whole broker that are counted by user, on the control thread. */
enum amb_share {
    AMB_SHARE_SESSIONS,
    AMB_SHARE_SUBSCRIPTIONS,
    AMB_SHARE_NAMES,
    AMB_SHARE_PAIRS,
    AMB_SHARE_TOPICS,
    AMB_SHARE_COUNT,
};
_Static_assert((int)AMB_SHARE_SESSIONS == AMB_QUOTA_CONNECTIONS &&
                   (int)AMB_SHARE_SUBSCRIPTIONS == AMB_QUOTA_SUBSCRIPTIONS &&
                   (int)AMB_SHARE_NAMES == AMB_QUOTA_NAMES &&
                   (int)AMB_SHARE_PAIRS == AMB_QUOTA_PAIRS &&
                   (int)AMB_SHARE_TOPICS == AMB_QUOTA_TOPICS,
               "shares are the first rows of a quota");

struct amb_entry_share;

/* Counts of entries, one for each worker (broker/shard/entry_share.h). A worker makes its own one
 * by calloc, and no other thread looks at it. NULL: it has none yet. */
struct amb_entry_shares {
    unsigned count;
    struct amb_entry_share *of[]; /* by the worker's index */
};

struct amb_user {
    _Atomic uint32_t refs;
    uint64_t id;  /* a uid, AMB_PARTY_TCP, or AMB_PARTY_NAMED with a number */
    bool is_free; /* root, or the broker's own: no shares, and no quota */
    uint32_t used[AMB_SHARE_COUNT];
    struct amb_account account; /* the same and more, beside the limits of its quota */
    struct amb_tenant *tenant;  /* its account is above; NULL: not known yet, or is_free */
    _Atomic uint64_t leased;    /* bytes of lease segments, closed ones that are still mapped too */
    uint64_t quarantined;       /* bytes in quarantine; the control thread's, as is: */
    bool has_fallen;            /* they are less than its sessions have been told */
    struct amb_entry_shares *entry_shares;
};

/* Topics of one party that wake, and its place in the line of those that have some. */
struct amb_waker {
    struct amb_list_node line;
    struct amb_list_node topics; /* struct amb_dir_topic.waking: each holds a reference */
    uint32_t count;              /* of them */
};

struct amb_party {
    _Atomic uint32_t refs;
    struct amb_user *user;
    uint32_t names;            /* publishers' names: identity.h; the control thread's */
    uint32_t pairs;            /* directory.h; the same */
    struct amb_waker waking;   /* directory_wake.c; the same */
    uint64_t quarantined;      /* bytes in quarantine; the same */
    _Atomic uint64_t kept;     /* bytes of lease segments that are in no session's book any more */
    _Atomic uint64_t prepared; /* bytes of buffers for messages still to come, */
    _Atomic int64_t lapsed_ns; /* and when one was last taken back unused; 0: never */
    struct amb_entry_shares *entry_shares;
    size_t key_len;
    char key[];
};

struct amb_parties {
    struct amb_map *by_key;
    struct amb_map *users;
    unsigned workers; /* of the broker: the length of entry_shares */
    int64_t swept_ns;
};

/* workers: how many the broker has; the index of each is less. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_parties_init(struct amb_parties *parties, unsigned workers);
/* Harmless on a zeroed one. */
void amb_parties_fini(struct amb_parties *parties);
/* The party of that user with that name (a pid, an address), with a reference for the caller.
 * ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_parties_find(struct amb_parties *parties, uint64_t user,
                                                const char *name, struct amb_party **out);
/* Forgets parties and users that nobody refers to; now and then. */
void amb_parties_sweep(struct amb_parties *parties, int64_t now_ns);
/* The party's process is gone: a process that gets the same pid is another party. */
void amb_parties_end(struct amb_parties *parties, struct amb_party *party);

static inline struct amb_party *amb_party_ref(struct amb_party *party)
{
    if (party != NULL) {
        (void)atomic_fetch_add_explicit(&party->refs, 1, memory_order_relaxed);
    }
    return party;
}
/* Sets *party to NULL, and does nothing else where it is NULL already. */
void amb_party_unref(struct amb_party **party);

/* The user is of that tenant, whose quota counts for it too. Harmless twice. */
void amb_user_join(struct amb_user *user, struct amb_tenant *tenant);
/* The user has so many more, or less, of that limit. The control thread. */
void amb_user_count(struct amb_user *user, enum amb_share share, int64_t change);
/* The party's user has one more of that limit until amb_party_uncharge: *out has a reference. party
 * NULL: nobody is charged. The control thread. */
void amb_party_charge(struct amb_party *party, enum amb_share share, struct amb_party **out);
/* So many bytes of the heap that belong to the party's user and to none of its sessions. NULL:
 * nobody's. */
void amb_party_heap(struct amb_party *party, int64_t change);
/* Harmless twice. */
void amb_party_uncharge(struct amb_party **party, enum amb_share share);

/* Of a limit of which all have `all` and one has `own`: how much that one may have. */
static inline uint64_t amb_share_of(uint64_t limit, uint64_t all, uint64_t own, unsigned percent)
{
    uint64_t others = all > own ? all - own : 0;
    uint64_t left = limit > others ? limit - others : 0;
    /* Rounded up: of a small limit others may find nothing left. */
    return left / 100 * percent + (left % 100 * percent + 99) / 100;
}
/* The same for a user; all of it for one without shares. */
static inline uint64_t amb_user_share(const struct amb_user *user, uint64_t limit, uint64_t all,
                                      uint64_t own, unsigned percent)
{
    return user == NULL || user->is_free ? limit : amb_share_of(limit, all, own, percent);
}

/* Has the user less than its share? leaving: of those that it has, and of all, so many that are
 * just going. user NULL: without shares. */
static inline bool amb_user_has_room(const struct amb_user *user, enum amb_share share,
                                     uint32_t leaving, uint64_t limit, uint64_t all,
                                     unsigned percent)
{
    uint64_t own = user == NULL ? 0 : user->used[share];
    own -= own < leaving ? own : leaving;
    return own < amb_user_share(user, limit, all - leaving, own, percent);
}

/* A leased segment is charged to its party from amb_party_lease to amb_party_end_lease.
 * amb_party_kept adds it to `kept` when it leaves its session's book. The kernel's word that it is
 * gone takes it off again: until then a reader, the maker or a process may hold it. Any thread;
 * party may be NULL. */
void amb_party_lease(struct amb_party *party, uint64_t bytes);
void amb_party_end_lease(struct amb_party **party, uint64_t bytes);
/* The same for one in GPU memory, which is gone when its lease is. */
void amb_party_lease_gpu(struct amb_party *party, uint64_t bytes);
void amb_party_end_lease_gpu(struct amb_party **party, uint64_t bytes);
void amb_party_kept(struct amb_party *party, uint64_t bytes);
