/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets one call of many fail, once: an allocation, or a call of libssl. Loaded by LD_PRELOAD, it
 * passes all others on. A test writes into the file $AMB_TORTURE_FILE, at any time, and reads
 * there: NUMBERS of 8 bytes in the machine's order.
 *
 *     0, 1   how many allocations, calls of libssl until one fails; 0: none does
 *     2, 3   how many there were
 *     4      how many have failed
 *
 * Allocations of libconfig and of UCX are left out. A call of libssl that fails leaves
 * an error in libssl's queue, as when it has no memory.
 *
 * With the address sanitizer, verify_asan_link_order=0: its runtime counts on being first itself.
 * Threads: any. Memory: a piece for what is allocated before malloc is known.
 */
#include "tests/support/programs/mapped.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 64
#define EARLY_BYTES ((size_t)1 << 20)
#define SHOWN __attribute__((visibility("default")))

enum {
    ALLOCATIONS,
    CALLS,
    SEEN,
    FAILED = 4,
    NUMBERS
};

static _Atomic int64_t before[NUMBERS]; /* until there is a file */
static _Atomic int64_t *numbers = before;

/* Libraries that die of a failed allocation: libconfig 1.5 looks at none, UCX 1.22 at few of those
 * that its constructors make. */
static bool is_of_another(void)
{
    void *frames[FRAMES];
    Dl_info info;
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) {
        if (dladdr(frames[i], &info) != 0 && info.dli_fname != NULL &&
            (strstr(info.dli_fname, "/libconfig.so") != NULL ||
             strstr(info.dli_fname, "/libuc") != NULL)) {
            return true;
        }
    }
    return false;
}

/* Is it this call's turn? */
static bool is_due(int what)
{
    (void)atomic_fetch_add_explicit(&numbers[SEEN + what], 1, memory_order_relaxed);
    if (atomic_load_explicit(&numbers[what], memory_order_relaxed) <= 0 ||
        atomic_fetch_sub_explicit(&numbers[what], 1, memory_order_relaxed) != 1) {
        return false;
    }
    if (what == ALLOCATIONS && is_of_another()) {
        atomic_store_explicit(&numbers[what], 1, memory_order_relaxed); /* the next one instead */
        return false;
    }
    (void)atomic_fetch_add_explicit(&numbers[FAILED], 1, memory_order_relaxed);
    return true;
}

/* Until the constructor has found the malloc behind this one. dlsym may allocate while it looks for
 * that, and so may a sanitizer that begins. */
static _Alignas(16) uint8_t early[EARLY_BYTES];
static size_t early_used;

static void *(*next_malloc)(size_t size);
static void *(*next_calloc)(size_t number, size_t size);
static void *(*next_realloc)(void *memory, size_t size);
static void *(*next_aligned_alloc)(size_t alignment, size_t size);
static int (*next_posix_memalign)(void **memory, size_t alignment, size_t size);
static void (*next_free)(void *memory);
static bool is_ready;

static void find(const char *name, void *next)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(next, &symbol, sizeof(symbol));
}

__attribute__((constructor)) static void begin(void)
{
    find("malloc", &next_malloc);
    find("calloc", &next_calloc);
    find("realloc", &next_realloc);
    find("aligned_alloc", &next_aligned_alloc);
    find("posix_memalign", &next_posix_memalign);
    find("free", &next_free);
    (void)is_of_another(); /* backtrace allocates at its first call, and keeps that */
    is_ready = true;
    numbers = map_named("AMB_TORTURE_FILE", sizeof(before), before);
}

static void *early_take(size_t size)
{
    size_t at = early_used;
    early_used += (size + 15) & ~(size_t)15;
    return early_used <= sizeof(early) ? early + at : NULL;
}

static bool is_early(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;
    return at >= (uintptr_t)early && at < (uintptr_t)early + sizeof(early);
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

SHOWN void *malloc(size_t size)
{
    if (!is_ready) {
        return early_take(size);
    }
    return is_due(ALLOCATIONS) ? no_memory() : next_malloc(size);
}

SHOWN void *calloc(size_t number, size_t size)
{
    if (!is_ready) {
        return early_take(number * size);
    }
    return is_due(ALLOCATIONS) ? no_memory() : next_calloc(number, size);
}

/* Nobody knows how long an early piece is: its bytes and some behind them are copied. */
static void *realloc_early(const uint8_t *memory, size_t size)
{
    size_t most = (size_t)(early + sizeof(early) - memory);
    void *larger = is_ready ? next_malloc(size) : early_take(size);
    if (larger != NULL) {
        memmove(larger, memory, size < most ? size : most);
    }
    return larger;
}

SHOWN void *realloc(void *memory, size_t size)
{
    if (!is_ready || is_early(memory)) {
        return memory == NULL ? early_take(size) : realloc_early(memory, size);
    }
    return is_due(ALLOCATIONS) ? no_memory() : next_realloc(memory, size);
}

SHOWN void *aligned_alloc(size_t alignment, size_t size)
{
    return !is_ready || is_due(ALLOCATIONS) ? no_memory() : next_aligned_alloc(alignment, size);
}

SHOWN int posix_memalign(void **memory, size_t alignment, size_t size)
{
    return !is_ready || is_due(ALLOCATIONS) ? ENOMEM : next_posix_memalign(memory, alignment, size);
}

SHOWN void free(void *memory)
{
    if (is_ready && memory != NULL && !is_early(memory)) {
        next_free(memory);
    }
}

/* The function of that name behind this one. Threads that come here at once find the same. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (next == NULL) {                                                                            \
        find(#name, &next);                                                                        \
    }

/* A call of libssl, that fails with `bad`. */
#define CALL(type, bad, name, parameters, ...)                                                     \
    SHOWN type name parameters                                                                     \
    {                                                                                              \
        NEXT(name)                                                                                 \
        if (is_due(CALLS)) {                                                                       \
            ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);                                          \
            return bad;                                                                            \
        }                                                                                          \
        return next(__VA_ARGS__);                                                                  \
    }

CALL(SSL_CTX *, NULL, SSL_CTX_new, (const SSL_METHOD *method), method)
CALL(SSL *, NULL, SSL_new, (SSL_CTX * ctx), ctx)
CALL(BIO *, NULL, BIO_new, (const BIO_METHOD *method), method)
CALL(int, -1, SSL_do_handshake, (SSL * ssl), ssl)
CALL(int, 0, SSL_read_ex, (SSL * ssl, void *bytes, size_t len, size_t *got), ssl, bytes, len, got)
CALL(int, 0, SSL_write_ex, (SSL * ssl, const void *bytes, size_t len, size_t *sent), ssl, bytes,
     len, sent)
CALL(int, 0, SSL_key_update, (SSL * ssl, int kind), ssl, kind)
CALL(int, -1, SSL_shutdown, (SSL * ssl), ssl)
CALL(int, 0, SSL_free_buffers, (SSL * ssl), ssl)
CALL(int, 1, SSL_set_alpn_protos, (SSL * ssl, const unsigned char *names, unsigned len), ssl, names,
     len)
CALL(int, 0, SSL_export_keying_material,
     (SSL * ssl, unsigned char *out, size_t size, const char *label, size_t label_len,
      const unsigned char *context, size_t context_len, int has_context),
     ssl, out, size, label, label_len, context, context_len, has_context)
CALL(int, 0, SSL_CTX_use_cert_and_key,
     (SSL_CTX * ctx, X509 *certificate, EVP_PKEY *key, STACK_OF(X509) * chain, int replaces), ctx,
     certificate, key, chain, replaces)
CALL(long, 0, SSL_CTX_ctrl, (SSL_CTX * ctx, int command, long number, void *pointer), ctx, command,
     number, pointer)
CALL(int, 0, SSL_CTX_set_ciphersuites, (SSL_CTX * ctx, const char *suites), ctx, suites)
CALL(int, 0, X509_STORE_add_cert, (X509_STORE * store, X509 *certificate), store, certificate)
