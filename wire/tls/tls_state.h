/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a connection: the object that the files of this room share.
 *
 *   tls.c         life, handshake            tls_io.c     plain bytes, records, new keys
 *   tls_socket.c  buffers and the socket     tls_bind.c   what two connections prove
 *   tls_verify.c  the broker's certificate   tls_words.c  failures as sentences
 *
 * Threads: one at a time. Only this room and its tests include it.
 */
#pragma once

#include "wire/tls/tls.h"
#include "wire/tls/tls_bio.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#define TLS_RECORD ((size_t)16 << 10) /* plain bytes of one, at most */
#define TLS_RECORD_EXTRA ((size_t)64) /* that it is longer by, on the wire */
/* New keys: the bound of AES-GCM (RFC 8446, 5.5) is 2^24.5 full records. */
#define TLS_REKEY_BYTES (UINT64_C(1) << 36)
#define TLS_REKEY_RECORDS (UINT64_C(1) << 23)
#define TLS_REKEY_APART (UINT64_C(1) << 20) /* bytes between two rekeys of a peer, at least */
#define TLS_READS 128u /* records that one receive takes: they may have a byte each */
#define TLS_WHY_MAX 256u

/* The end of what can be received. */
enum tls_end {
    TLS_OPEN,
    TLS_CLOSED, /* by its peer, in order or not */
    TLS_FAILED, /* errno of receive */
};

struct amb_tls {
    SSL *ssl;
    int fd;
    bool is_server;
    bool is_done;   /* its handshake is */
    bool was_heard; /* a byte has come, */
    uint8_t first;  /* ... this one */
    enum amb_tls_alpn alpn;
    struct amb_tls_pipe pipe;
    enum tls_end end;
    int end_errno;
    uint32_t reads;      /* of libssl, in this receive; TLS_READS: it has been cut short */
    bool waits_for_room; /* libssl answers before it reads on, and the buffer is full */
    bool is_mute;        /* sending has failed */
    int mute_errno;

    uint64_t rekey_bytes, rekey_records; /* of ours; tests have smaller ones */
    uint64_t sent_bytes, sent_records;   /* by the keys in use */
    uint64_t heard_bytes;                /* by the peer's keys in use */
    bool has_rekeyed;                    /* the peer has, at least once */
    uint64_t rekeys_sent, rekeys_heard;

    bool was_filled;        /* the last read has filled all the room there was */
    uint64_t moved;         /* calls that moved bytes */
    uint64_t moved_at_trim; /* ... at the last trim, */
    uint64_t moved_at_rest; /* ... and one more, when it gave its memory back; 0: never */
    bool has_pin;
    uint8_t pin[AMB_TLS_PIN_SIZE];
    char name[AMB_TLS_NAME_MAX + 1];
    enum amb_status refusal; /* of `why` */
    char why[TLS_WHY_MAX];
};

/* Before a call of libssl for a record. The thread's queue of errors is empty then, most often, and
 * a look at it costs less than to clear its sixteen places. */
static inline void amb_tls_forget_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}
