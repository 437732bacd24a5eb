/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers with a name of their own: how far each has come on a topic, over sessions and restarts
 * of its program. A worker counts the messages of a publisher that has an identity. When a session
 * comes back for one, the control thread tells it where it left off, and it sends the rest. So
 * nothing is looked up for a message, and nothing comes twice.
 *
 *   free ─► taken by a client ─► its session ends ─► its worker has heard it out (a fence) ─► free
 *
 * Names belong to a user: nobody else's publishers meet them. They are charged to the party that
 * took them last, while they are taken and for limits.dedup_window afterwards. A party has at most
 * half of the part that other parties leave. A user has limits.user_share per cent of the part that
 * other users leave.
 *
 * Threads: the control thread; `seq` is the worker's that has the publisher, and ours behind a
 * fence at that worker. Memory: one allocation each, at most AMB_IDENTITIES_MAX, never freed before
 * the end. The one unused for longest is used anew when it is older than limits.dedup_window.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/base/hash.h"
#include "wire/base/list.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_party;

#define AMB_IDENTITIES_MAX AMB_NAMES_MAX
#define AMB_IDENTITY_NAME_MAX 64u
#define AMB_IDENTITY_KEY_MAX (18u + AMB_IDENTITY_NAME_MAX + AMB_TOPIC_MAX)

struct amb_identity {
    struct amb_list_node node; /* unused longest first */
    uint64_t seq;              /* messages that have come, whatever became of them */
    unsigned shard;            /* of its last publisher */
    bool is_taken, was_taken;
    struct amb_party *party; /* that is charged; NULL: none, the name may be used anew */
    int64_t used_ns;
    size_t key_len;
    char key[AMB_IDENTITY_KEY_MAX];
};

struct amb_identities {
    struct amb_map *by_key;
    struct amb_list_node all;    /* those that somebody is charged for, */
    struct amb_list_node lapsed; /* and the others */
    uint32_t count, charged;
};

AMB_MUST_CHECK enum amb_status amb_identities_init(struct amb_identities *identities);
/* Without workers. */
void amb_identities_fini(struct amb_identities *identities);

/* May it have one more name? NULL: yes; else the limit that it has met, a static text. */
const char *amb_identities_full(struct amb_identities *identities, const struct amb_party *party,
                                unsigned user_share, int64_t now_ns, int64_t window_ns);
/*
 * The identity of that user's publisher of that priority on a topic, taken from here on. EBUSY:
 * somebody has it; EINVAL: not a name; ELIMIT: all are too young; ENOMEM.
 */
AMB_MUST_CHECK enum amb_status amb_identity_take(struct amb_identities *identities, uint32_t user,
                                                 const char *name, const char *topic,
                                                 enum amb_priority priority, int64_t now_ns,
                                                 int64_t window_ns, struct amb_identity **out);
/* The party that is charged for the name; NULL: it is not known, or nobody is. */
struct amb_party *amb_identity_payer(const struct amb_identities *identities, uint32_t user,
                                     const char *name, const char *topic,
                                     enum amb_priority priority);
/* Is the party charged for that name already? A publisher that takes it again needs no more
 * room. */
bool amb_identity_is_of(const struct amb_identities *identities, const struct amb_party *party,
                        uint32_t user, const char *name, const char *topic,
                        enum amb_priority priority);
/* Charges the party for it, which has room, and nobody else any more. */
void amb_identity_charge(struct amb_identities *identities, struct amb_identity *identity,
                         struct amb_party *party);
/* Its publisher is gone, or will be when its worker has read what it was sent. NULL is allowed. */
void amb_identity_give(struct amb_identities *identities, struct amb_identity *identity,
                       int64_t now_ns);
