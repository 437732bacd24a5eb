/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher's side of a session: which batches have come, in which order they go on, and how many
 * bytes it may send.
 *
 *   received ─► whole ─► routed ─► receipt (ACCEPTED) ─► grant (WINDOW moves)
 *
 * A place is reserved at a batch's head, and batches leave in that order. Over UCX a large body
 * completes after small ones behind it. A granted batch is always taken. So memory and entries are
 * reserved when a window opens, and a large message gets its buffer then, not when it comes.
 *
 * Threads: the shard's worker. Memory: one allocation, made by an order.
 */
#pragma once

#include "broker/ingest/publisher_entries.h"
#include "broker/memory/bufpool.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_WINDOW_FIRST (UINT64_C(64) << 10) /* bytes granted at declaration, if there is room */
/* A publisher that has waited for memory for so long gets it where others only might need it. */
#define AMB_STARVING_NS (100 * AMB_NS_PER_MS)

/* A prepared buffer that is not used within that time is taken back. For the other time nothing is
 * prepared for a publisher that has not used it. */
#define AMB_PREPARED_NS (5 * AMB_NS_PER_SEC)
#define AMB_PREPARED_PAUSE_NS (10 * AMB_NS_PER_SEC)

struct amb_tally;
struct amb_entry;
struct amb_frame;
struct amb_session;
struct amb_shard;

struct amb_publisher {
    struct amb_session *session;
    uint32_t handle, opened;
    uint32_t topic;
    struct amb_bufpool *pool;            /* of its shard: what its batches lie in */
    const struct amb_trust_group *group; /* its topic's: of the segments that it commits in */
    unsigned home;                       /* index of the topic's worker */
    uint32_t subscribers;                /* that match, as its client was told */
    bool wants_settled;                  /* a SETTLED frame for each batch */
    bool confirms;                       /* ... of one taken, when it has been delivered */
    bool asks;                      /* it confirms, or a batch that is to be routed is traced */
    bool verifies;                  /* its topic copies leased batches: trust = "verify" */
    bool copies;                    /* the same of host memory: another user reads the topic now */
    uint32_t lease_user;            /* the user that may read its leased batches in place; or
                                     * AMB_USER_ANY */
    bool avoids_gpu;                /* its link fetches nothing into GPU memory (gpuslot.h) */
    uint64_t batches;               /* heads that came */
    uint64_t received, freed;       /* bytes that came; bytes whose place is free again */
    uint64_t window;                /* bytes that may have come: what the client was told */
    uint64_t window_size;           /* of it beyond `freed` */
    uint64_t widened_at;            /* received then */
    uint64_t want;                  /* bytes the client waits to have sent */
    uint64_t accepted;              /* the last batch whose receipt has come */
    uint32_t refusals;              /* SETTLED frames that wait in the link: ACCEPTED waits too */
    uint64_t reserved;              /* bytes of the window that nothing has come for yet */
    uint64_t reserved_wide;         /* of them, for what may come in one piece */
    struct amb_buf prepared;        /* for the message it wants to send, beyond them */
    uint64_t prepared_from;         /* the window before: batches within it are in front of the
                                     * buffer */
    int64_t prepared_ns;            /* when, */
    int64_t prepared_since_ns;      /* ... and when the first of those not used since */
    struct amb_list_node preparing; /* in the shard's list: has one */
    bool is_short;                  /* less was reserved than the batch takes that came last */
    bool is_blocked;                /* its user's quota keeps its window shut; its client knows */
    bool is_shut;     /* in the shard's list `shut`: a quota does, or the share of entries */
    bool is_rationed; /* in the shard's list `rationed`: its session has its share */
    struct amb_list_node pending;  /* struct amb_entry.pending, in order of arrival */
    struct amb_list_node starving; /* in the shard's list: wants memory */
    int64_t starving_since_ns;
    struct amb_list_node node;
    uint64_t *seq;           /* of a named one: messages that have come; or NULL */
    bool is_mute;            /* named, and a batch of its was refused since the broker ends */
    bool is_ending;          /* goes when batch `last` has been routed */
    uint64_t last;           /* ... the last one that the client has sent */
    void (*gone)(void *arg); /* of an ending one, may be NULL */
    void *gone_arg;

    struct amb_publisher_entries entries;
};

/* group: of its batches, which may be private. Slots that it commits are of publisher->group, which
 * is the same one until somebody sets it. */
AMB_MUST_CHECK enum amb_status amb_publisher_create(struct amb_session *session, uint32_t handle,
                                                    uint32_t topic, unsigned home,
                                                    bool wants_settled,
                                                    const struct amb_trust_group *group,
                                                    struct amb_publisher **out);
/* Entries that are not whole yet are left to their on_body, which finds nobody to give them to. */
void amb_publisher_destroy(struct amb_publisher **publisher);
/*
 * The client has sent its last batch, of this number; the request came by another connection and
 * may have overtaken it. The publisher goes when that batch has been routed: at once, in
 * amb_publisher_routed, or with its session. `gone` (may be NULL) is called then.
 */
void amb_publisher_end(struct amb_publisher *publisher, uint64_t last, void (*gone)(void *arg),
                       void *arg);
/* All that came has been routed. The publisher may be gone afterwards. */
void amb_publisher_routed(struct amb_publisher *publisher);

/* Would amb_publisher_admit take this head? Says and changes nothing. */
bool amb_publisher_may_send(const struct amb_publisher *publisher, const struct amb_frame *frame);
/* Books a batch's head. EPROTO if it may not come: order, window, size. */
AMB_MUST_CHECK enum amb_status amb_publisher_admit(struct amb_publisher *publisher,
                                                   const struct amb_frame *frame);
/* The same for a COMMIT's, which takes nothing from the window: its order. */
AMB_MUST_CHECK enum amb_status amb_publisher_admit_commit(struct amb_publisher *publisher,
                                                          const struct amb_frame *frame);
/*
 * The entry is appended, or refused (entry->status): tells the client. A broker that ends refuses
 * the batches that still come. It does not say so to a publisher with a name. That client keeps
 * each batch that is not answered, and sends it again in its next session.
 */
void amb_publisher_receipt(struct amb_publisher *publisher, const struct amb_entry *entry);
/* A batch that was taken has been delivered to all its readers, or not at all: tells the client. */
void amb_publisher_confirmed(struct amb_publisher *publisher, const struct amb_tally *tally);
