/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a link under test. It sends frames whose bodies are a pattern, and records all
 * upcalls. It fails the running CMocka test as soon as the link breaks a promise of
 * wire/link/link.h. That is a frame out of order, a field or byte changed, or something settled
 * twice.
 * Threads: one at a time, like the link. Memory: allocates per frame; everything is given back by
 * link_peer_fini.
 */
#pragma once

#include "wire/codec/frame.h"
#include "wire/link/link.h"

/* A frame that the other end has sent and this one must see. */
struct link_peer_expected {
    struct amb_frame frame;
    uint64_t seed;
};

#define LINK_PEER_EXPECTED_MAX 16384u

struct link_peer_tx;
struct link_peer_body;

struct link_peer {
    struct amb_link *link;   /* NULL before creation and once closed */
    struct link_peer *other; /* the peer at which frames arrive */
    bool is_broker;          /* sends the broker's types of frames */

    struct link_peer_tx *txs; /* all of them, newest first */
    uint64_t sent, settled_ok, settled_canceled, settled_lost;

    struct link_peer_expected *expected; /* ring of LINK_PEER_EXPECTED_MAX */
    uint64_t expected_head, expected_tail;
    struct link_peer_body *bodies; /* given to the link and not completed */
    uint64_t frames, bodies_given, bodies_ok, bodies_failed;
    enum amb_status body_failure; /* of the last one that failed */

    uint64_t flow[AMB_FLOW_KINDS][AMB_HANDLES_MAX];
    uint64_t flow_calls;

    unsigned downs, closes;
    enum amb_status down_status;
    bool is_closing;

    /* Switches of single tests. */
    bool discards;   /* on_frame leaves dst NULL */
    unsigned echoes; /* answer so many frames from on_frame */
    enum amb_status frame_answer, body_answer, flow_answer; /* of the upcalls */
};

extern const struct amb_link_events link_peer_events; /* arg: struct link_peer */

void link_peer_init(struct link_peer *peer, struct link_peer *other, bool is_broker);
/* The link is closed. Fails the test if a tx or a body was never settled. */
void link_peer_fini(struct link_peer *peer);

/* A type of frame that this end may send: kind 0 has a body, 1 and 2 have none. */
uint8_t link_peer_type(const struct link_peer *peer, unsigned kind);
/*
 * Sends one frame with fields made from the number of frames sent so far. body_len: for types with
 * a body, a multiple of 16, at least 16. Returns what amb_link_send returned, at which the test has
 * failed unless the link is down.
 */
enum amb_status link_peer_send(struct link_peer *peer, uint8_t type, uint64_t body_len);
void link_peer_flow(struct link_peer *peer, enum amb_flow_kind kind, uint32_t handle,
                    uint64_t value);
/* Kinds of flow values that this end may send. */
unsigned link_peer_flow_kinds(const struct link_peer *peer);
/* tx taken by the link and not settled. */
uint64_t link_peer_unsettled(const struct link_peer *peer);
/* Closes now; link_peer_is_closed tells when that is done. */
void link_peer_close(struct link_peer *peer);
bool link_peer_is_closed(const struct link_peer *peer);
/* All frames of the other end have been seen, and all bodies that were given are complete. */
bool link_peer_has_all(const struct link_peer *peer);
/* The body that is under way goes on in other memory. False: there is none. */
bool link_peer_move_body(struct link_peer *peer);
/* ... or is thrown away from here on. */
bool link_peer_drop_body(struct link_peer *peer);
