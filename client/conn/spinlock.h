/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for sections of a few dozen nanoseconds that are hardly ever contended: one exchange to
 * take, one store to give back. A thread that finds it taken yields the CPU, because the holder
 * may be off it. Threads: any. Memory: none.
 */
#pragma once

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct amb_spinlock {
    _Atomic bool is_taken;
};

static inline bool amb_spinlock_try(struct amb_spinlock *lock)
{
    /* Acquire: pairs with the release in amb_spinlock_unlock. */
    return !atomic_exchange_explicit(&lock->is_taken, true, memory_order_acquire);
}

static inline void amb_spinlock_lock(struct amb_spinlock *lock)
{
    while (__builtin_expect(!amb_spinlock_try(lock), 0)) {
        (void)sched_yield();
    }
}

static inline void amb_spinlock_unlock(struct amb_spinlock *lock)
{
    atomic_store_explicit(&lock->is_taken, false, memory_order_release);
}
