/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that do handshakes of TLS. The door gives them connections, and each comes back to
 * the control thread. One that is through has its socket and TLS; all others were closed here.
 *
 * Threads: start and stop where the broker starts and stops; give and evict from the control
 * thread. Memory: an allocation and 16 KiB for each connection under way. libssl takes more: it had
 * 221 KiB for a peer that announced the largest ClientHello (OpenSSL 3.0). No account is charged
 * before the handshake is done; the door bounds how many there are.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/tls/crowds.h"
#include "wire/base/status.h"
#include "wire/tls/tls_context.h"

#include <pthread.h>
#include <sys/socket.h>

#define AMB_HANDSHAKERS_MAX 4u

struct amb_tls;

/* How a handshake has ended: each in one way. */
enum amb_handshake_end {
    AMB_HANDSHAKE_DONE,
    AMB_HANDSHAKE_FAILED,
    AMB_HANDSHAKE_PLAIN,   /* its first bytes are no TLS */
    AMB_HANDSHAKE_LATE,    /* its deadline has passed */
    AMB_HANDSHAKE_EVICTED, /* also one that is done, if the control thread has not heard it yet */
    AMB_HANDSHAKE_ENDS,
};

/* A connection on its way through a handshake, and back to the control thread. */
struct amb_handshake_way {
    struct amb_mail mail; /* to the handshaker, and back */
    struct amb_handshaker *handshaker;
    struct amb_tls_context *context; /* a reference */
    struct sockaddr_storage from;
    int64_t deadline_ns;
    /* The control thread's. */
    struct amb_crowd_member by_crowd;
    struct amb_crowd *crowd; /* NULL: it does not count */
    struct amb_mail evicted; /* to the handshaker, and back where it is no longer there */
    _Atomic bool is_evicted; /* the handshaker reads it, too */
    /* The handshaker's; then the control thread's. */
    struct amb_tls *tls;
    int fd;                     /* -1: it is closed */
    enum amb_handshake_end end; /* once it has left */
    struct amb_list_node node;
    short events; /* that its socket is watched for */
    bool is_under_way;
    bool has_heard; /* the handshaker, that it is evicted */
};

/* Handshakes that have ended, by their end. Of those that have begun the others are half open. */
struct amb_handshake_stats {
    uint64_t ended[AMB_HANDSHAKE_ENDS];
};

struct amb_handshaker {
    struct amb_inbox inbox;
    struct amb_mail stop;
    pthread_t thread;
    struct amb_handshakers *all;
    struct amb_list_node under_way; /* struct amb_handshake_way.node, oldest first */
    int64_t next_deadline_ns;       /* of all of them, or earlier */
    int epoll_fd;
    bool is_stopping;
};

struct amb_handshakers {
    struct amb_handshaker threads[AMB_HANDSHAKERS_MAX];
    unsigned count, next, next_other; /* threads take turns at each */
    /* The control thread's. */
    uint32_t half_open; /* given, and not yet back */
    uint32_t closing;   /* evicted, and not known as closed */
    struct amb_handshake_stats stats;
    /* The same for all threads. */
    struct amb_inbox *control; /* where they go, */
    amb_mail_fn on_end;        /* ... as struct amb_handshake_way.mail */
};

/* on_end: once for each connection that was given and not evicted; it frees the struct. ELIMIT,
 * ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_handshakers_start(struct amb_handshakers *all, unsigned threads,
                                                     struct amb_inbox *control, amb_mail_fn on_end);
/* Closes what is under way, and ends the threads. Mail to control may still be there. Harmless
 * twice, and on zeros. */
void amb_handshakers_stop(struct amb_handshakers *all);
/* Takes the descriptor. NULL: there is no memory, and the descriptor is closed. The struct is there
 * until on_end, or until it is evicted. */
struct amb_handshake_way *amb_handshakers_give(struct amb_handshakers *all, int fd,
                                               const struct sockaddr_storage *from,
                                               struct amb_tls_context *context,
                                               int64_t deadline_ns);
/* Of the thread whose turn it is, for work of another kind. */
struct amb_inbox *amb_handshakers_inbox(struct amb_handshakers *all);
/* Closes that connection soon, even if its handshake is done meanwhile. The struct is no longer the
 * caller's. */
void amb_handshakers_evict(struct amb_handshake_way *way);
/* Of a connection that has come back: frees all but socket and TLS, which are the caller's. */
void amb_handshake_way_free(struct amb_handshake_way *way);
/* Closes it as well, if that is still to be done. */
void amb_handshake_way_close(struct amb_handshake_way *way);
