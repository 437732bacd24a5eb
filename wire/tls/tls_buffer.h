/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes between libssl and a socket. A buffer has none of its memory until bytes come. Then it
 * has 16 KiB, and grows to 256 KiB where more is under way at once. Its owner releases it when the
 * connection is idle.
 *
 *      0      start          end         cap
 *      |  gone  |  to be taken |  room    |
 *
 * Threads: owner. Memory: one allocation, which is charged to an account of the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TLS_BUFFER_MIN ((size_t)16 << 10)
#define AMB_TLS_BUFFER_MAX ((size_t)256 << 10)

/* The account that memory is charged to. Both NULL: to none. */
struct amb_tls_charge {
    bool (*take)(void *arg, size_t bytes); /* false: there is no room, and nothing is charged */
    void (*give)(void *arg, size_t bytes);
    void *arg;
};

/* Zero-initialised. */
struct amb_tls_buffer {
    uint8_t *bytes;
    size_t start, end, cap;
};

static inline size_t amb_tls_buffer_len(const struct amb_tls_buffer *buffer)
{
    return buffer->end - buffer->start;
}

/*
 * Makes room for `least` bytes behind `end`: by moving what is there, else by more memory. False:
 * that would be past AMB_TLS_BUFFER_MAX, or past the account, or there is no memory.
 */
bool amb_tls_buffer_reserve(struct amb_tls_buffer *buffer, size_t least,
                            const struct amb_tls_charge *charge);
/* `len` of the bytes have been taken. */
void amb_tls_buffer_consume(struct amb_tls_buffer *buffer, size_t len);
/* Gives the memory back, with all that is in it. */
void amb_tls_buffer_release(struct amb_tls_buffer *buffer, const struct amb_tls_charge *charge);
