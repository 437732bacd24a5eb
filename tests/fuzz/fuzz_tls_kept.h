/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of TLS whose handshake is done, as each input finds them anew. A handshake costs more
 * than all the rest of an input. So it is done once, and libssl's memory is an arena meanwhile. Its
 * image afterwards is put back before each input, to the last byte. That needs libcrypto's memory:
 *
 *   before, and of an input's own handshake     malloc
 *   while the kept handshake goes on            the arena: nothing of it is ever given back
 *   of an input, records' buffers               slots, which are free again at the next input
 *   of an input, all else                       malloc: some of it is libcrypto's for good
 *
 * One handshake goes before, so that no table of libcrypto that stays lies in the arena. The kept
 * ends have a reference of their own. So an input that lets go of them frees the broker's part, and
 * nothing outside the image.
 * Threads: one. Memory: static; the parts of the broker are an input's.
 */
#pragma once

#include "tests/fuzz/fuzz_tls.h"
#include "wire/tls/tls_state.h"

#include <openssl/crypto.h>
#include <stdalign.h>
#include <unistd.h>

#define FUZZ_ARENA ((size_t)1 << 20)
#define FUZZ_RECORD_LEAST ((size_t)8 << 10) /* bytes that nothing but a buffer of records has */
#define FUZZ_RECORD_SIZE ((size_t)20 << 10)
#define FUZZ_RECORDS 4u /* two of each end: one a direction */

struct fuzz_block {
    alignas(16) size_t size;
};

static struct {
    alignas(16) uint8_t arena[FUZZ_ARENA];
    uint8_t image[FUZZ_ARENA];
    alignas(16) uint8_t records[FUZZ_RECORDS][FUZZ_RECORD_SIZE];
    bool has_record[FUZZ_RECORDS];
    size_t used; /* of the arena */
    enum {
        FUZZ_PASSES, /* to malloc */
        FUZZ_FILLS,  /* the arena */
        FUZZ_LENDS,  /* slots for records */
    } mode;
    struct tls_two two; /* its descriptors are closed */
} fuzz_kept;

/* ---- libcrypto's memory ---- */

FUZZ_PLAIN static inline bool fuzz_is_of_arena(const void *block)
{
    uintptr_t at = (uintptr_t)block, arena = (uintptr_t)fuzz_kept.arena;
    return at >= arena && at < arena + FUZZ_ARENA;
}

/* FUZZ_RECORDS: it is none. */
FUZZ_PLAIN static inline unsigned fuzz_record_of(const void *block)
{
    unsigned i = 0;
    while (i < FUZZ_RECORDS && block != fuzz_kept.records[i]) {
        i++;
    }
    return i;
}

FUZZ_PLAIN static inline void *fuzz_arena_take(size_t size)
{
    struct fuzz_block *block = (struct fuzz_block *)(void *)(fuzz_kept.arena + fuzz_kept.used);
    size_t whole = sizeof(*block) + (size + 15) / 16 * 16;
    amb_assert(whole <= FUZZ_ARENA - fuzz_kept.used);
    block->size = size;
    fuzz_kept.used += whole;
    return block + 1;
}

FUZZ_PLAIN static inline void *fuzz_record_take(size_t size)
{
    unsigned i = 0;
    while (i < FUZZ_RECORDS && fuzz_kept.has_record[i]) {
        i++;
    }
    amb_assert(i < FUZZ_RECORDS && size <= FUZZ_RECORD_SIZE);
    fuzz_kept.has_record[i] = true;
    return fuzz_kept.records[i];
}

FUZZ_PLAIN static void *fuzz_crypto_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    if (size == 0) {
        return NULL;
    }
    if (fuzz_kept.mode == FUZZ_FILLS) {
        return fuzz_arena_take(size);
    }
    return fuzz_kept.mode == FUZZ_LENDS && size >= FUZZ_RECORD_LEAST ? fuzz_record_take(size)
                                                                     : malloc(size);
}

FUZZ_PLAIN static void fuzz_crypto_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    unsigned record = fuzz_record_of(block);
    if (record < FUZZ_RECORDS) {
        fuzz_kept.has_record[record] = false;
    } else if (!fuzz_is_of_arena(block)) {
        free(block);
    }
}

FUZZ_PLAIN static void *fuzz_crypto_realloc(void *block, size_t size, const char *file, int line)
{
    amb_assert(fuzz_record_of(block) == FUZZ_RECORDS); /* libssl makes new ones instead */
    if (!fuzz_is_of_arena(block) && (block != NULL || fuzz_kept.mode == FUZZ_PASSES)) {
        return realloc(block, size);
    }
    void *other = fuzz_crypto_malloc(size, file, line);
    if (block != NULL && other != NULL) {
        size_t before = ((struct fuzz_block *)block - 1)->size;
        memcpy(other, block, before < size ? before : size);
    }
    return other;
}

/* ---- the two ends ---- */

FUZZ_PLAIN static inline void fuzz_kept_shake(struct tls_two *two, enum amb_tls_alpn alpn)
{
    uint8_t left;
    tls_two_connect_narrow(two, FUZZ_TLS_BUFFER);
    fuzz_tls_shake(two, alpn);
    /* All of the handshake has been read. */
    amb_assert(recv(two->broker_fd, &left, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
    amb_assert(recv(two->client_fd, &left, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
}

/* Before anything else of libcrypto is called; takes the place of fuzz_tls_init. */
FUZZ_PLAIN static inline void fuzz_kept_init(enum amb_tls_alpn alpn)
{
    struct tls_two first;
    if (fuzz_tls_server != NULL) {
        return;
    }
    amb_assert(
        CRYPTO_set_mem_functions(fuzz_crypto_malloc, fuzz_crypto_realloc, fuzz_crypto_free) == 1);
    fuzz_tls_init();
    fuzz_kept_shake(&first, alpn);
    tls_two_fini(&first);
    fuzz_kept.mode = FUZZ_FILLS;
    fuzz_kept_shake(&fuzz_kept.two, alpn);
    amb_assert(SSL_up_ref(fuzz_kept.two.broker->ssl) == 1);
    amb_assert(SSL_up_ref(fuzz_kept.two.client->ssl) == 1);
    fuzz_kept.mode = FUZZ_PASSES;
    (void)close(fuzz_kept.two.broker_fd);
    (void)close(fuzz_kept.two.client_fd);
    memcpy(fuzz_kept.image, fuzz_kept.arena, fuzz_kept.used);
}

FUZZ_PLAIN static inline void fuzz_kept_copy_buffer(struct amb_tls_buffer *buffer)
{
    if (buffer->bytes != NULL) {
        uint8_t *bytes = malloc(buffer->cap);
        amb_assert(bytes != NULL);
        memcpy(bytes + buffer->start, buffer->bytes + buffer->start, amb_tls_buffer_len(buffer));
        buffer->bytes = bytes;
    }
}

FUZZ_PLAIN static inline struct amb_tls *fuzz_kept_copy(const struct amb_tls *kept, int fd)
{
    struct amb_tls *tls = malloc(sizeof(*tls));
    amb_assert(tls != NULL);
    *tls = *kept;
    tls->fd = fd;
    fuzz_kept_copy_buffer(&tls->pipe.in);
    fuzz_kept_copy_buffer(&tls->pipe.out);
    BIO_set_data(SSL_get_rbio(tls->ssl), &tls->pipe);
    amb_assert(SSL_get_wbio(tls->ssl) == SSL_get_rbio(tls->ssl));
    amb_assert(SSL_set_app_data(tls->ssl, tls) == 1);
    SSL_set_msg_callback_arg(tls->ssl, tls);
    return tls;
}

/* Both ends on the descriptors of *two, as fuzz_tls_shake leaves them. Those of the input before
 * have been destroyed. */
FUZZ_PLAIN static inline void fuzz_kept_take(struct tls_two *two)
{
    memcpy(fuzz_kept.arena, fuzz_kept.image, fuzz_kept.used);
    memset(fuzz_kept.has_record, 0, sizeof(fuzz_kept.has_record));
    fuzz_kept.mode = FUZZ_LENDS;
    two->broker = fuzz_kept_copy(fuzz_kept.two.broker, two->broker_fd);
    two->client = fuzz_kept_copy(fuzz_kept.two.client, two->client_fd);
    two->broker_status = two->client_status = AMB_OK;
}

/* After the input, whose ends have been destroyed. */
FUZZ_PLAIN static inline void fuzz_kept_leave(void)
{
    fuzz_kept.mode = FUZZ_PASSES;
}
