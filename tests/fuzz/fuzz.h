/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one function, called with bytes that a peer may have sent. It states its
 * invariants with amb_assert and leaves reads outside to the sanitizers. So everything that it
 * hands to the code under test lies in an allocation of exactly its size.
 * Threads: one. Memory: a target frees all it takes.
 */
#pragma once

#include <sanitizer/asan_interface.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of functions that are the target's own and none of the tested code: their behaviour is no
 * news. */
#ifdef __clang__
#define FUZZ_PLAIN __attribute__((no_sanitize("coverage")))
#else
#define FUZZ_PLAIN
#endif

/* Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A copy in an allocation of exactly len bytes; free() it. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        abort();
    }
    if (len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

/* The same with a NUL behind it. */
static inline char *fuzz_text(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);
    if (text == NULL) {
        abort();
    }
    if (len > 0) {
        memcpy(text, data, len);
    }
    text[len] = '\0';
    return text;
}

/* The part of a fuzz_copy that has not come yet. A read there is found as one behind an allocation
 * is, and costs no allocation for each piece. */
static inline void fuzz_hide(const uint8_t *copy, size_t len)
{
    ASAN_POISON_MEMORY_REGION(copy, len);
    (void)copy, (void)len;
}

static inline void fuzz_show(const uint8_t *copy, size_t len)
{
    ASAN_UNPOISON_MEMORY_REGION(copy, len);
    (void)copy, (void)len;
}
