/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/purse.h"

#include "broker/base/party.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdlib.h>

/* So much of the account stays here, though nothing is held, for what comes next. */
#define SPARE (2 * AMB_PURSE_PIECE)

struct amb_purse *amb_purse_find(struct amb_shard *shard, struct amb_party *party)
{
    if (party == NULL || party->user->tenant == NULL) {
        return NULL;
    }
    AMB_LIST_FOR_EACH (node, &shard->purses) {
        struct amb_purse *purse = AMB_CONTAINER_OF(node, struct amb_purse, node);
        if (purse->party->user == party->user) {
            purse->refs++;
            return purse;
        }
    }
    struct amb_purse *purse = calloc(1, sizeof(*purse));
    if (purse != NULL) {
        purse->party = amb_party_ref(party);
        purse->account = &party->user->account;
        purse->refs = 1;
        amb_list_push_back(&shard->purses, &purse->node);
    }
    return purse;
}

void amb_purse_unref(struct amb_purse **purse)
{
    struct amb_purse *p = *purse;
    *purse = NULL;
    if (p == NULL || --p->refs > 0) {
        return;
    }
    amb_assert(p->held == 0);
    amb_account_sub(p->account, AMB_QUOTA_HOST_BYTES, p->taken);
    amb_list_remove(&p->node);
    amb_party_unref(&p->party);
    free(p);
}

void amb_purse_hold(struct amb_purse *purse, uint64_t bytes)
{
    purse->held += bytes;
    if (__builtin_expect(purse->held > purse->taken, 0)) {
        uint64_t more =
            (purse->held - purse->taken + AMB_PURSE_PIECE - 1) / AMB_PURSE_PIECE * AMB_PURSE_PIECE;
        amb_account_add(purse->account, AMB_QUOTA_HOST_BYTES, more);
        purse->taken += more;
    }
}

void amb_purse_let_go(struct amb_purse *purse, uint64_t bytes)
{
    amb_assert(purse->held >= bytes);
    purse->held -= bytes;
    if (__builtin_expect(purse->taken - purse->held > SPARE, 0)) {
        uint64_t less =
            (purse->taken - purse->held) / AMB_PURSE_PIECE * AMB_PURSE_PIECE - AMB_PURSE_PIECE;
        amb_account_sub(purse->account, AMB_QUOTA_HOST_BYTES, less);
        purse->taken -= less;
    }
}

bool amb_purse_has_room(const struct amb_purse *purse, uint64_t bytes)
{
    uint64_t here = purse->taken - purse->held;
    return bytes <= here || bytes - here <= amb_account_left(purse->account, AMB_QUOTA_HOST_BYTES);
}

/* So much of a second's bytes. Messages may be small: a batch of them at a time. */
#define WINDOWS_A_SECOND 10u
#define PURSE_WINDOW (UINT64_C(64) << 10)

uint64_t amb_purse_window(const struct amb_purse *purse, uint64_t most)
{
    for (const struct amb_account *account = purse->account; account != NULL;
         account = account->above) {
        uint64_t bytes = amb_account_limit_of(account, AMB_QUOTA_IN_BYTES) / WINDOWS_A_SECOND;
        if (amb_account_limit_of(account, AMB_QUOTA_IN_MSGS) != AMB_QUOTA_NONE ||
            bytes < PURSE_WINDOW) {
            bytes = PURSE_WINDOW;
        }
        most = bytes < most ? bytes : most;
    }
    return most;
}

enum amb_quota amb_purse_obstacle(struct amb_purse *purse, uint64_t bytes, int64_t now_ns)
{
    amb_account_bill(purse->account, AMB_QUOTA_IN_MSGS, purse->msgs, now_ns);
    amb_account_bill(purse->account, AMB_QUOTA_IN_BYTES, purse->bytes, now_ns);
    purse->msgs = purse->bytes = 0;
    if (amb_account_is_late(purse->account, AMB_QUOTA_IN_MSGS, now_ns)) {
        return AMB_QUOTA_IN_MSGS;
    }
    if (amb_account_is_late(purse->account, AMB_QUOTA_IN_BYTES, now_ns)) {
        return AMB_QUOTA_IN_BYTES;
    }
    return amb_purse_has_room(purse, amb_purse_cost(bytes)) ? AMB_QUOTA_COUNT
                                                            : AMB_QUOTA_HOST_BYTES;
}
