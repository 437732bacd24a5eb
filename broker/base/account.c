/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/account.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"

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
    [AMB_QUOTA_HOST_BYTES] = "host_bytes",
    [AMB_QUOTA_GPU_BYTES] = "gpu_bytes",
    [AMB_QUOTA_IN_MSGS] = "in_msgs",
    [AMB_QUOTA_IN_BYTES] = "in_bytes",
    [AMB_QUOTA_REQUESTS] = "requests",
    [AMB_QUOTA_FILTER_TESTS] = "filter_tests",
    [AMB_QUOTA_HEAP] = "heap",
    [AMB_QUOTA_LEASED] = "leased",
    [AMB_QUOTA_MAPPED] = "mapped",
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
        if (amb_account_limit_of(account, (enum amb_quota)i) != limits[i]) {
            atomic_store_explicit(&account->limit[i], limits[i], memory_order_relaxed);
            /* A bill of the old rate may last for hours, whatever the new one is. */
            atomic_store_explicit(&account->paid_ns[i], 0, memory_order_relaxed);
        }
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

const struct amb_account *amb_account_past(const struct amb_account *account, enum amb_quota row,
                                           uint64_t value)
{
    while (account != NULL && amb_account_limit_of(account, row) >= value) {
        account = account->above;
    }
    return account;
}

bool amb_account_has_room(const struct amb_account *account, enum amb_quota row, uint64_t more,
                          uint64_t spare)
{
    for (; account != NULL; account = account->above) {
        uint64_t used = amb_account_used(account, row), limit = amb_account_limit_of(account, row);
        used -= spare < used ? spare : used;
        if (limit != AMB_QUOTA_NONE && (used > limit || more > limit - used)) {
            return false;
        }
    }
    return true;
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

#define LONG_NS (3600 * AMB_NS_PER_SEC) /* no bill is longer */

static int64_t cost_ns(uint64_t more, uint64_t limit)
{
    uint64_t seconds = more / (limit == 0 ? 1 : limit);
    if (limit == 0 || seconds >= (uint64_t)(LONG_NS / AMB_NS_PER_SEC)) {
        return LONG_NS;
    }
    double rest = (double)(more - seconds * limit) / (double)limit;
    return (int64_t)seconds * AMB_NS_PER_SEC + (int64_t)(rest * (double)AMB_NS_PER_SEC);
}

void amb_account_bill(struct amb_account *account, enum amb_quota row, uint64_t more,
                      int64_t now_ns)
{
    for (; account != NULL && more > 0; account = account->above) {
        uint64_t limit = amb_account_limit_of(account, row);
        (void)atomic_fetch_add_explicit(&account->passed[row], more, memory_order_relaxed);
        if (limit == AMB_QUOTA_NONE) {
            continue;
        }
        int64_t cost = cost_ns(more, limit), least = now_ns - AMB_QUOTA_BURST_NS, after;
        int64_t before = atomic_load_explicit(&account->paid_ns[row], memory_order_relaxed);
        do {
            after = (before < least ? least : before) + cost;
        } while (!atomic_compare_exchange_weak_explicit(
            &account->paid_ns[row], &before, after, memory_order_relaxed, memory_order_relaxed));
    }
}

static bool is_late_here(const struct amb_account *account, enum amb_quota row, int64_t now_ns)
{
    uint64_t limit = amb_account_limit_of(account, row);
    return limit != AMB_QUOTA_NONE &&
           (limit == 0 ||
            atomic_load_explicit(&account->paid_ns[row], memory_order_relaxed) > now_ns);
}

bool amb_account_is_late(const struct amb_account *account, enum amb_quota row, int64_t now_ns)
{
    while (account != NULL && !is_late_here(account, row, now_ns)) {
        account = account->above;
    }
    return account != NULL;
}

bool amb_account_owes(const struct amb_account *account, int64_t now_ns)
{
    bool owes = false;
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        owes = owes || atomic_load_explicit(&account->paid_ns[i], memory_order_relaxed) > now_ns;
    }
    return owes;
}

void amb_account_note_late(struct amb_account *account, enum amb_quota row, int64_t now_ns)
{
    while (account != NULL && !is_late_here(account, row, now_ns)) {
        account = account->above;
    }
    if (account != NULL) {
        (void)atomic_fetch_add_explicit(&account->refused[row], 1, memory_order_relaxed);
    }
}

static const enum amb_quota rates[] = {AMB_QUOTA_IN_MSGS, AMB_QUOTA_IN_BYTES, AMB_QUOTA_REQUESTS,
                                       AMB_QUOTA_FILTER_TESTS};
#define RATES (sizeof(rates) / sizeof(rates[0]))

bool amb_quota_is_rate(enum amb_quota row)
{
    bool is_rate = false;
    for (unsigned i = 0; i < RATES; i++) {
        is_rate = is_rate || rates[i] == row;
    }
    return is_rate;
}

void amb_account_rates(struct amb_account *account, int64_t since_ns)
{
    for (unsigned i = 0; i < RATES && since_ns > 0; i++) {
        uint64_t passed = atomic_load_explicit(&account->passed[rates[i]], memory_order_relaxed);
        double each = (double)(passed - account->seen[rates[i]]) * (double)AMB_NS_PER_SEC;
        account->seen[rates[i]] = passed;
        atomic_store_explicit(&account->used[rates[i]], (uint64_t)(each / (double)since_ns),
                              memory_order_relaxed);
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
