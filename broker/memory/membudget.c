/* SPDX-License-Identifier: Apache-2.0 */
/* The part that the pools of all workers share: how much memory there may be. */
#include "broker/memory/membudget.h"

#include "wire/base/assert.h"

/* Adds bytes, unless that is more than max. */
static bool counter_take(_Atomic uint64_t *counter, uint64_t max, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(counter, memory_order_relaxed);
    do {
        if (used > max || bytes > max - used) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(counter, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void counter_give(_Atomic uint64_t *counter, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(counter, bytes, memory_order_relaxed);
    amb_assert(before >= bytes);
}

bool amb_membudget_take(struct amb_membudget *budget, uint64_t bytes)
{
    return counter_take(&budget->used, budget->max, bytes);
}

void amb_membudget_give(struct amb_membudget *budget, uint64_t bytes)
{
    counter_give(&budget->used, bytes);
}

bool amb_membudget_take_lease(struct amb_membudget *budget, uint64_t bytes)
{
    uint64_t max = budget->max_leases == 0 ? UINT64_MAX : budget->max_leases;
    if (!counter_take(&budget->leases, max, 1)) {
        return false;
    }
    if (counter_take(&budget->leased, budget->max / 4 * 3, bytes)) {
        if (amb_membudget_take(budget, bytes)) {
            return true;
        }
        counter_give(&budget->leased, bytes);
    }
    counter_give(&budget->leases, 1);
    return false;
}

void amb_membudget_end_lease(struct amb_membudget *budget, uint64_t bytes)
{
    counter_give(&budget->leases, 1);
    counter_give(&budget->leased, bytes);
}

void amb_membudget_fence(struct amb_membudget *budget)
{
    (void)atomic_fetch_add_explicit(&budget->fence, 1, memory_order_relaxed);
}

uint64_t amb_membudget_next_id(struct amb_membudget *budget)
{
    return atomic_fetch_add_explicit(&budget->next_id, 1, memory_order_relaxed) + 1;
}
