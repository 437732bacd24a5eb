/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/heap_account.h"

#include "broker/base/account.h"

void amb_heap_take_piece(struct amb_heap_account *account)
{
    uint64_t pieces = (account->bytes - account->taken + AMB_HEAP_PIECE - 1) / AMB_HEAP_PIECE;
    if (account->payer == NULL) {
        account->taken = UINT64_MAX; /* It was made of zeros. */
        return;
    }
    amb_account_add(account->payer, AMB_QUOTA_HEAP, pieces * AMB_HEAP_PIECE);
    account->taken += pieces * AMB_HEAP_PIECE;
}

void amb_heap_give_piece(struct amb_heap_account *account)
{
    uint64_t less =
        ((account->taken - account->bytes) / AMB_HEAP_PIECE - 1) * AMB_HEAP_PIECE; /* One stays. */
    amb_account_sub(account->payer, AMB_QUOTA_HEAP, less);
    account->taken -= less;
}

bool amb_heap_payer_has_room(const struct amb_heap_account *account, uint64_t bytes)
{
    return account->payer == NULL || bytes - (account->taken - account->bytes) <=
                                         amb_account_left(account->payer, AMB_QUOTA_HEAP);
}

void amb_heap_pay(struct amb_heap_account *account, struct amb_account *payer)
{
    amb_heap_leave(account);
    if (payer != NULL) {
        account->payer = payer;
        account->taken = 0;
        if (account->bytes > 0) {
            amb_heap_take_piece(account);
        }
    }
}

void amb_heap_leave(struct amb_heap_account *account)
{
    if (account->payer != NULL) {
        amb_account_sub(account->payer, AMB_QUOTA_HEAP, account->taken);
    }
    account->payer = NULL;
    account->taken = UINT64_MAX;
}

bool amb_heap_go_on(struct amb_heap_account *account, uint64_t bytes)
{
    if (!amb_heap_may_go_on(account, bytes)) {
        account->refused++;
        return false;
    }
    amb_heap_take(account, bytes);
    return true;
}

bool amb_heap_charge(struct amb_heap_account *account, uint64_t bytes)
{
    if (!amb_heap_has_room(account, bytes)) {
        account->refused++;
        if (amb_heap_may_go_on(account, bytes)) {
            uint64_t left = amb_account_left(account->payer, AMB_QUOTA_HEAP);
            (void)amb_account_refuses(account->payer, AMB_QUOTA_HEAP, left + 1);
        }
        return false;
    }
    amb_heap_take(account, bytes);
    return true;
}
