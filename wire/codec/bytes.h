/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian integers at any address. Threads: any. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void amb_put16(uint8_t *at, uint16_t x)
{
    x = htole16(x);
    memcpy(at, &x, sizeof(x));
}

static inline void amb_put32(uint8_t *at, uint32_t x)
{
    x = htole32(x);
    memcpy(at, &x, sizeof(x));
}

static inline void amb_put64(uint8_t *at, uint64_t x)
{
    x = htole64(x);
    memcpy(at, &x, sizeof(x));
}

static inline uint16_t amb_get16(const uint8_t *at)
{
    uint16_t x;
    memcpy(&x, at, sizeof(x));
    return le16toh(x);
}

static inline uint32_t amb_get32(const uint8_t *at)
{
    uint32_t x;
    memcpy(&x, at, sizeof(x));
    return le32toh(x);
}

static inline uint64_t amb_get64(const uint8_t *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof(x));
    return le64toh(x);
}
