/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/account.h"

#include "wire/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const keys[AMB_QUOTA_COUNT] = {
    [AMB_QUOTA_CONNECTIONS] = "connections",
    [AMB_QUOTA_SUBSCRIPTIONS] = "subscriptions",
    [AMB_QUOTA_NAMES] = "names",
    [AMB_QUOTA_PAIRS] = "pairs",
    [AMB_QUOTA_TOPICS] = "topics",
    [AMB_QUOTA_PUBLISHERS] = "publishers",
};

const char *amb_quota_key(enum amb_quota row)
{
    return keys[row];
}

void amb_account_init(struct amb_account *account, const char *kind, struct amb_account *above)
{
    *account = (struct amb_account){.kind = kind, .above = above};
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        atomic_init(&account->limit[i], AMB_QUOTA_NONE);
    }
}

void amb_account_limit(struct amb_account *account, const char *quota,
                       const uint64_t limits[AMB_QUOTA_COUNT])
{
    (void)snprintf(account->quota, sizeof(account->quota), "%s", quota);
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        atomic_store_explicit(&account->limit[i], limits[i], memory_order_relaxed);
    }
}

static uint64_t left_here(const struct amb_account *account, enum amb_quota row)
{
    uint64_t used = amb_account_used(account, row), limit = amb_account_limit_of(account, row);
    return limit == AMB_QUOTA_NONE ? AMB_QUOTA_NONE : used < limit ? limit - used : 0;
}

struct amb_account *amb_account_full(struct amb_account *account, enum amb_quota row, uint64_t more)
{
    while (account != NULL && left_here(account, row) >= more) {
        account = account->above;
    }
    return account;
}

struct amb_account *amb_account_refuses(struct amb_account *account, enum amb_quota row,
                                        uint64_t more)
{
    struct amb_account *full = amb_account_full(account, row, more);
    if (full != NULL) {
        (void)atomic_fetch_add_explicit(&full->refused[row], 1, memory_order_relaxed);
    }
    return full;
}

uint64_t amb_account_left(const struct amb_account *account, enum amb_quota row)
{
    uint64_t least = AMB_QUOTA_NONE;
    for (; account != NULL; account = account->above) {
        uint64_t left = left_here(account, row);
        least = left < least ? left : least;
    }
    return least;
}

void amb_account_add(struct amb_account *account, enum amb_quota row, uint64_t more)
{
    for (; account != NULL; account = account->above) {
        (void)atomic_fetch_add_explicit(&account->used[row], more, memory_order_relaxed);
    }
}

void amb_account_sub(struct amb_account *account, enum amb_quota row, uint64_t less)
{
    for (; account != NULL; account = account->above) {
        uint64_t before =
            atomic_fetch_sub_explicit(&account->used[row], less, memory_order_relaxed);
        amb_assert(before >= less);
    }
}

const char *amb_quota_text(const struct amb_account *account, enum amb_quota row,
                           char out[AMB_QUOTA_TEXT_MAX])
{
    (void)snprintf(out, AMB_QUOTA_TEXT_MAX, "limit: %s = %" PRIu64 " of the %s's quota \"%s\"",
                   amb_quota_key(row), amb_account_limit_of(account, row), account->kind,
                   account->quota);
    return out;
}
