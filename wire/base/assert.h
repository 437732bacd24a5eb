/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions state what our own code guarantees. Peer input is never asserted, it is checked.
 * amb_assert is always on and cheap; amb_debug_assert may be costly and is off in release builds.
 */
#pragma once

/* Logs the expression and aborts. */
_Noreturn void amb_assert_failed(const char *expression, const char *file, int line);

#define amb_assert(condition)                                                                      \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            amb_assert_failed(#condition, __FILE__, __LINE__);                                     \
        }                                                                                          \
    } while (0)

#ifdef NDEBUG
#define amb_debug_assert(condition) ((void)sizeof(condition))
#else
#define amb_debug_assert(condition) amb_assert(condition)
#endif
