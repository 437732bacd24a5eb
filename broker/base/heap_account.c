/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/heap_account.h"

bool amb_heap_charge(struct amb_heap_account *account, uint64_t bytes)
{
    if (!amb_heap_has_room(account, bytes)) {
        account->refused++;
        return false;
    }
    amb_heap_take(account, bytes);
    return true;
}
