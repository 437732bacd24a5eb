/* SPDX-License-Identifier: Apache-2.0 */
/* Stores past the caches are SSE2's, which every x86-64 has; elsewhere memcpy does what it can. */
#include "wire/base/copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#include <stdint.h>

#define LINE 64u

void amb_copy_stream(void *restrict to, const void *restrict from, size_t n)
{
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    head = head < n ? head : n;
    memcpy(to, from, head);
    uint8_t *dst = (uint8_t *)to + head;
    const uint8_t *src = (const uint8_t *)from + head;
    size_t lines = (n - head) / LINE;
    for (size_t i = 0; i < lines; i++, dst += LINE, src += LINE) {
        __m128i a = _mm_loadu_si128((const void *)src);
        __m128i b = _mm_loadu_si128((const void *)(src + 16));
        __m128i c = _mm_loadu_si128((const void *)(src + 32));
        __m128i d = _mm_loadu_si128((const void *)(src + 48));
        _mm_stream_si128((void *)dst, a);
        _mm_stream_si128((void *)(dst + 16), b);
        _mm_stream_si128((void *)(dst + 32), c);
        _mm_stream_si128((void *)(dst + 48), d);
    }
    memcpy(dst, src, (n - head) % LINE);
    _mm_sfence(); /* Not even a release store orders them. */
}
#else
void amb_copy_stream(void *restrict to, const void *restrict from, size_t n)
{
    memcpy(to, from, n);
}
#endif
