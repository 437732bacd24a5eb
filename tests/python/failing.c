/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into an interpreter: the Nth call of malloc, calloc or realloc that comes from a range
 * of addresses fails. memory.py makes that range the extension's code.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOWN __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static uintptr_t low, high;
static atomic_long left; /* 0: none fails */
static atomic_long failures;

/* The Nth from here on fails, once; 0: none. Returns how many have failed so far. */
SHOWN long failing_set(uintptr_t from, uintptr_t to, long nth);
SHOWN long failing_set(uintptr_t from, uintptr_t to, long nth)
{
    low = from;
    high = to;
    atomic_store(&left, nth);
    return atomic_load(&failures);
}

static bool fails(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (at < low || at >= high || atomic_load(&left) == 0 || atomic_fetch_sub(&left, 1) != 1) {
        return false;
    }
    atomic_fetch_add(&failures, 1);
    errno = ENOMEM;
    return true;
}

SHOWN void *malloc(size_t size);
SHOWN void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

SHOWN void *calloc(size_t count, size_t size);
SHOWN void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

SHOWN void *realloc(void *old, size_t size);
SHOWN void *realloc(void *old, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
