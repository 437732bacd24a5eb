/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes: four steps per power of two, so that rounding up wastes at most a quarter.
 * 1 2 3 4 | 5 6 7 8 | 10 12 14 16 | 20 24 28 32 | ... in whatever unit the caller counts.
 * Threads: any.
 */
#pragma once

#include <stdint.h>

static inline uint32_t sizeclass_log2(uint64_t x)
{
    return 63u - (uint32_t)__builtin_clzll(x);
}

/* The smallest class that holds n units; n >= 1. */
static inline uint32_t amb_sizeclass_of(uint64_t n)
{
    if (n <= 4) {
        return (uint32_t)n - 1;
    }
    uint32_t k = sizeclass_log2(n - 1);
    return 4 * (k - 1) + (uint32_t)((n - 1 - (UINT64_C(1) << k)) >> (k - 2));
}

/* Units of a class. */
static inline uint64_t amb_sizeclass_units(uint32_t cls)
{
    if (cls < 4) {
        return cls + 1;
    }
    uint32_t k = 1 + cls / 4;
    return (UINT64_C(1) << k) + ((uint64_t)(cls % 4 + 1) << (k - 2));
}

/* The largest class that n units hold; n >= 1. */
static inline uint32_t amb_sizeclass_within(uint64_t n)
{
    uint32_t cls = amb_sizeclass_of(n);
    return amb_sizeclass_units(cls) > n ? cls - 1 : cls;
}
