/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas for tests.
 * Threads: any. Memory: none.
 */
#pragma once

#include "broker/base/account.h"

/* The account has that limit, and no other one. */
static inline void quota_limit(struct amb_account *account, enum amb_quota row, uint64_t most)
{
    uint64_t limits[AMB_QUOTA_COUNT];
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        limits[i] = i == (unsigned)row ? most : AMB_QUOTA_NONE;
    }
    amb_account_limit(account, "small", limits);
}
