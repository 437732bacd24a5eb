/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's life on its worker, from its opening to the end of its quarantine. Each change of its
 * state (session.h) is a function here. An order asks for it (orders_session.c), the link
 * (dispatch.c), or the turn (worker.c).
 *
 *   amb_session_open
 *     ▼
 *   OPEN ◄─ amb_session_attach: its stream has come
 *     │ amb_session_link_down: control hears that the link is down
 *     │ amb_session_hear: its client's last words
 *     ▼ amb_session_close
 *   CLOSING ◄─ amb_session_link_gone: its publishers go
 *     │ amb_sessions_clear: its deliveries are given up
 *     ▼ once that is done
 *   QUARANTINED, if its client's process may still read or write something, else gone
 *     │ amb_session_release
 *     ▼
 *   gone
 *
 * Threads: the shard's worker.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"
#include "wire/codec/url.h"
#include "wire/link/ring/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_link_waste;
struct amb_tls;
struct amb_party;
struct amb_session;
struct amb_shard;

/* A session that is to be opened. */
struct amb_session_opening {
    uint64_t secret, client_id;
    enum amb_link_kind link;
    bool is_on_host, may_map, may_map_gpu;
    uint64_t mapped_max;
    struct amb_party *party; /* the client's, which outlives this */
    uint32_t user;
    uint32_t tenant;
    uint64_t maps; /* as those of struct amb_session */
    uint64_t ring_size;
    uint8_t *address; /* the client's UCX worker */
    size_t address_len;
    struct amb_ring_fds fds; /* out, of a ring that is made here */
    struct amb_link *ring;   /* made by the porter; NULL: it is made here. The session takes it */
    uint32_t lanes_lack;     /* out, of a ucx link: enum amb_expect, what its lanes do not offer */
};

/* A session that is to close. */
struct amb_session_closing {
    bool keep_held; /* its client's process may still read what it has in place */
    bool has_begun;
    struct amb_list_node hearing; /* of shard->hearing.closings, while last words are heard */
    uint64_t number;              /* of this closing: see amb_sessions_newest */
    uint32_t polls;               /* of its link, so far */
    uint64_t quarantined_bytes;   /* out: > 0: quarantined, the session still exists */
};

/* With its link, but for a stream, which comes with amb_session_attach. On failure it is undone.
 * ENOMEM, ENOTSUP, or as the maker of its link. */
AMB_MUST_CHECK enum amb_status amb_session_open(struct amb_shard *shard, uint32_t index,
                                                uint32_t generation,
                                                struct amb_session_opening *opening);
/* The stream that it has waited for, plain (tls NULL) or not; it takes both, also on failure.
 * ESTATE: it has a link. ELIMIT: its account has no room for TLS. */
AMB_MUST_CHECK enum amb_status amb_session_attach(struct amb_session *session, int fd,
                                                  struct amb_tls *tls);

/* The upcall of its link, which is down: control is told why. */
void amb_session_link_down(struct amb_session *session, enum amb_status why, const char *text);

/*
 * A client's frames from before its Bye still count: the Bye overtakes the deliveries that it has
 * given back and acknowledged. True: the session is to be closed. All frames have been read, or
 * its link is down, or its polls of all turns are used up. False: this turn has read enough, and
 * the next one goes on.
 */
bool amb_session_hear(struct amb_session *session, struct amb_session_closing *closing);
/* The number of the newest session that is, or was, heard. */
uint64_t amb_sessions_newest(const struct amb_shard *shard);
/* Have all up to that number been heard? */
bool amb_sessions_are_heard(const struct amb_shard *shard, uint64_t number);

/*
 * Cuts the session's link and gives up what it has: publishers, subscriptions, what is under way.
 * keep_held: deliveries in place stay, quarantined. `closed` is called with arg once that is done,
 * at once or later. quarantined_bytes 0: the session is gone, else it is quarantined. Where very
 * much is out that takes several turns (AMB_SHARD_CLEAR_TURN).
 */
void amb_session_close(struct amb_session *session, bool keep_held,
                       void (*closed)(void *arg, uint64_t quarantined_bytes), void *arg);
/* The upcall of its link: what a ring leaves behind when it closes. */
void amb_session_take_waste(struct amb_session *session, struct amb_link_waste *waste);
/* The upcall of its link, which is gone. */
void amb_session_link_gone(struct amb_session *session);
/* Once a turn: goes on with sessions that have closed. Returns 1 if there was one. */
unsigned amb_sessions_clear(struct amb_shard *shard);

/* The process is gone: the end of a quarantine, so much of it as a turn may do. True: the session
 * is gone. */
AMB_MUST_CHECK bool amb_session_release(struct amb_session *session);
