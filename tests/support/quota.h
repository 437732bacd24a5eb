/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas for tests, and a user who has one.
 * Threads: any. Memory: the user's parties, from quota_user_init to quota_user_fini.
 */
#pragma once

#include "broker/base/account.h"
#include "broker/base/party.h"
#include "broker/session/session.h"
#include "broker/shard/purse.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The account has that limit, and no other one. */
static inline void quota_limit(struct amb_account *account, enum amb_quota row, uint64_t most)
{
    uint64_t limits[AMB_QUOTA_COUNT];
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        limits[i] = i == (unsigned)row ? most : AMB_QUOTA_NONE;
    }
    amb_account_limit(account, "small", limits);
}

struct quota_user {
    struct amb_parties parties;
    struct amb_tenants tenants;
    struct amb_party *party;
    struct amb_account *account; /* its user's */
};

static inline void quota_user_init(struct quota_user *u)
{
    struct amb_tenant *tenant;
    assert_int_equal(amb_parties_init(&u->parties, 2), AMB_OK);
    assert_int_equal(amb_tenants_init(&u->tenants), AMB_OK);
    assert_int_equal(amb_tenants_take(&u->tenants, "plant", &tenant), AMB_OK);
    assert_int_equal(amb_parties_find(&u->parties, AMB_PARTY_NAMED | 1, "1", &u->party), AMB_OK);
    amb_user_join(u->party->user, tenant);
    u->account = &u->party->user->account;
}

/* The session is one of that user's. It has no publisher yet. */
static inline void quota_user_owns(struct quota_user *u, struct amb_session *session)
{
    session->purse = amb_purse_find(session->shard, u->party);
    assert_non_null(session->purse);
}

/* Its sessions have ended, and nothing that they published is left. */
static inline void quota_user_fini(struct quota_user *u)
{
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        assert_int_equal(amb_account_used(u->account, (enum amb_quota)i), 0);
    }
    amb_party_unref(&u->party);
    amb_parties_fini(&u->parties);
    amb_tenants_fini(&u->tenants);
}
