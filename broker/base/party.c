/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/party.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWEEP_NS AMB_NS_PER_SEC
#define NAME_MAX_LEN 96u

enum amb_status amb_parties_init(struct amb_parties *parties, unsigned workers)
{
    *parties = (struct amb_parties){.workers = workers};
    enum amb_status status = amb_map_create(&parties->by_key);
    if (status == AMB_OK) {
        status = amb_map_create(&parties->users);
    }
    return status;
}

static struct amb_entry_shares *shares_create(unsigned workers)
{
    struct amb_entry_shares *shares =
        calloc(1, sizeof(*shares) + workers * sizeof(struct amb_entry_share *));
    if (shares != NULL) {
        shares->count = workers;
    }
    return shares;
}

static void shares_destroy(struct amb_entry_shares *shares)
{
    for (unsigned i = 0; shares != NULL && i < shares->count; i++) {
        free(shares->of[i]);
    }
    free(shares);
}

static void user_free(struct amb_user *user)
{
    shares_destroy(user->entry_shares);
    free(user);
}

static void user_unref(struct amb_user *user)
{
    if (atomic_fetch_sub_explicit(&user->refs, 1, memory_order_acq_rel) == 1) {
        amb_tenant_unref(&user->tenant);
        user_free(user);
    }
}

static void party_free(struct amb_party *party)
{
    if (party != NULL) {
        shares_destroy(party->entry_shares);
        free(party);
    }
}

void amb_party_unref(struct amb_party **party)
{
    struct amb_party *p = *party;
    *party = NULL;
    if (p != NULL && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) {
        user_unref(p->user);
        party_free(p);
    }
}

void amb_user_join(struct amb_user *user, struct amb_tenant *tenant)
{
    if (user->tenant != NULL || user->is_free) {
        return;
    }
    user->tenant = amb_tenant_ref(tenant);
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        amb_account_add(&tenant->account, i, amb_account_used(&user->account, i));
    }
    user->account.above = &tenant->account;
}

static void account_change(struct amb_account *account, enum amb_quota row, int64_t change)
{
    if (change >= 0) {
        amb_account_add(account, row, (uint64_t)change);
    } else {
        amb_account_sub(account, row, (uint64_t)-change);
    }
}

void amb_user_count(struct amb_user *user, enum amb_share share, int64_t change)
{
    amb_assert(change >= 0 || user->used[share] >= (uint64_t)-change);
    user->used[share] = (uint32_t)(user->used[share] + change);
    account_change(&user->account, (enum amb_quota)share, change);
}

void amb_party_heap(struct amb_party *party, int64_t change)
{
    if (party != NULL) {
        account_change(&party->user->account, AMB_QUOTA_HEAP, change);
    }
}

void amb_party_charge(struct amb_party *party, enum amb_share share, struct amb_party **out)
{
    *out = amb_party_ref(party);
    if (party != NULL) {
        amb_user_count(party->user, share, 1);
    }
}

void amb_party_uncharge(struct amb_party **party, enum amb_share share)
{
    if (*party != NULL) {
        amb_user_count((*party)->user, share, -1);
        amb_party_unref(party);
    }
}

static enum amb_status user_find(struct amb_parties *parties, uint64_t id, struct amb_user **out)
{
    struct amb_user *user = amb_map_get(parties->users, (const char *)&id, sizeof(id));
    if (user == NULL) {
        user = calloc(1, sizeof(*user));
        if (user == NULL || (user->entry_shares = shares_create(parties->workers)) == NULL) {
            free(user);
            return AMB_ENOMEM;
        }
        user->id = id;
        amb_account_init(&user->account, "user", NULL);
        user->is_free = id == 0 || id == (uint64_t)geteuid();
        atomic_init(&user->refs, 1);
        if (amb_map_put(parties->users, (const char *)&user->id, sizeof(id), user) != AMB_OK) {
            user_free(user);
            return AMB_ENOMEM;
        }
    }
    *out = user;
    return AMB_OK;
}

enum amb_status amb_parties_find(struct amb_parties *parties, uint64_t user, const char *name,
                                 struct amb_party **out)
{
    char key[NAME_MAX_LEN + 24];
    int written = snprintf(key, sizeof(key), "%" PRIu64 " %s", user, name);
    size_t len = written < (int)sizeof(key) ? (size_t)written : sizeof(key) - 1;
    struct amb_party *party = amb_map_get(parties->by_key, key, len);
    if (party == NULL) {
        party = calloc(1, sizeof(*party) + len);
        if (party == NULL || (party->entry_shares = shares_create(parties->workers)) == NULL ||
            user_find(parties, user, &party->user) != AMB_OK) {
            party_free(party);
            return AMB_ENOMEM;
        }
        amb_list_init(&party->waking.line);
        amb_list_init(&party->waking.topics);
        memcpy(party->key, key, len);
        party->key_len = len;
        atomic_init(&party->refs, 1);
        if (amb_map_put(parties->by_key, party->key, len, party) != AMB_OK) {
            party_free(party);
            return AMB_ENOMEM;
        }
        (void)atomic_fetch_add_explicit(&party->user->refs, 1, memory_order_relaxed);
    }
    *out = amb_party_ref(party);
    return AMB_OK;
}

void amb_parties_end(struct amb_parties *parties, struct amb_party *party)
{
    if (amb_map_get(parties->by_key, party->key, party->key_len) == party) {
        (void)amb_map_remove(parties->by_key, party->key, party->key_len);
        amb_party_unref(&party);
    }
}

/* Some keys of a map, to be looked at when nothing walks it. */
#define SWEEP_MAX 256u
struct sweep {
    void *found[SWEEP_MAX];
    unsigned count;
    int64_t now_ns;
};

static bool note_party(const char *key, void *value, void *arg)
{
    (void)key;
    struct sweep *sweep = arg;
    struct amb_party *party = value;
    if (atomic_load_explicit(&party->refs, memory_order_acquire) == 1) {
        sweep->found[sweep->count++] = party;
    }
    return sweep->count < SWEEP_MAX;
}

static bool note_user(const char *key, void *value, void *arg)
{
    (void)key;
    struct sweep *sweep = arg;
    struct amb_user *user = value;
    /* Or who comes back in a second would begin without his bill. */
    if (atomic_load_explicit(&user->refs, memory_order_acquire) == 1 &&
        !amb_account_owes(&user->account, sweep->now_ns)) {
        sweep->found[sweep->count++] = user;
    }
    return sweep->count < SWEEP_MAX;
}

static void user_forget(struct amb_parties *parties, struct amb_user *user)
{
    uint64_t id = user->id;
    (void)amb_map_remove(parties->users, (const char *)&id, sizeof(id));
    user_unref(user);
}

void amb_parties_sweep(struct amb_parties *parties, int64_t now_ns)
{
    if (parties->by_key == NULL || now_ns - parties->swept_ns < SWEEP_NS) {
        return;
    }
    struct sweep sweep = {.now_ns = now_ns};
    amb_map_each(parties->by_key, note_party, &sweep);
    for (unsigned i = 0; i < sweep.count; i++) {
        amb_parties_end(parties, sweep.found[i]);
    }
    if (sweep.count < SWEEP_MAX) { /* else there may be more, and the next call goes on */
        parties->swept_ns = now_ns;
    }
    sweep.count = 0;
    amb_map_each(parties->users, note_user, &sweep);
    for (unsigned i = 0; i < sweep.count; i++) {
        user_forget(parties, sweep.found[i]);
    }
}

static bool drop_party(const char *key, void *value, void *arg)
{
    (void)key;
    (void)arg;
    struct amb_party *party = value;
    amb_party_unref(&party);
    return true;
}

static bool drop_user(const char *key, void *value, void *arg)
{
    (void)key;
    (void)arg;
    user_unref(value);
    return true;
}

void amb_parties_fini(struct amb_parties *parties)
{
    if (parties->by_key != NULL) {
        amb_map_each(parties->by_key, drop_party, NULL);
        amb_map_destroy(&parties->by_key);
    }
    if (parties->users != NULL) {
        amb_map_each(parties->users, drop_user, NULL);
        amb_map_destroy(&parties->users);
    }
}

void amb_party_lease(struct amb_party *party, uint64_t bytes)
{
    if (party != NULL) {
        (void)atomic_fetch_add_explicit(&party->user->leased, bytes, memory_order_relaxed);
        amb_account_add(&party->user->account, AMB_QUOTA_LEASED, bytes);
        amb_account_add(&party->user->account, AMB_QUOTA_HOST_BYTES, bytes);
    }
}

void amb_party_end_lease(struct amb_party **party, uint64_t bytes)
{
    if (*party != NULL) {
        uint64_t before =
            atomic_fetch_sub_explicit(&(*party)->user->leased, bytes, memory_order_relaxed);
        amb_assert(before >= bytes);
        amb_account_sub(&(*party)->user->account, AMB_QUOTA_LEASED, bytes);
        amb_account_sub(&(*party)->user->account, AMB_QUOTA_HOST_BYTES, bytes);
        amb_party_unref(party);
    }
}

void amb_party_lease_gpu(struct amb_party *party, uint64_t bytes)
{
    if (party != NULL) {
        amb_account_add(&party->user->account, AMB_QUOTA_GPU_BYTES, bytes);
    }
}

void amb_party_end_lease_gpu(struct amb_party **party, uint64_t bytes)
{
    if (*party != NULL) {
        amb_account_sub(&(*party)->user->account, AMB_QUOTA_GPU_BYTES, bytes);
        amb_party_unref(party);
    }
}

void amb_party_kept(struct amb_party *party, uint64_t bytes)
{
    if (party != NULL) {
        (void)atomic_fetch_add_explicit(&party->kept, bytes, memory_order_relaxed);
    }
}
