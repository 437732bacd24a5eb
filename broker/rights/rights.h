/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of a user: the lists of its roles, with its own name and its tenant's for %u and %t.
 *
 *   publish     A topic has to match an allow, and no deny.
 *   subscribe   A pattern has to lie within one allow. A deny within which it lies refuses it.
 * Denies that it meets narrow it: the directory never connects it to topics that these match.
 *
 * A deny is one of dead letters, too: that of a.> refuses $DLQ.a.b, and narrows $DLQ.>.
 *
 * Allows add up over all roles, and any deny wins. A wildcard in the first token matches no topic
 * of the broker ($SYS, $DLQ), in an allow as in a deny.
 *
 * Rights that are NULL allow everything.
 *
 * Threads: the control thread. Memory: one allocation, with all patterns, and the table's key; both
 * are freed with the last reference. Each session that has them is charged for all of it
 * (control/clients/login.h). Roles are the configuration's: of that there is a reference.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_rights_table;

/* A user as its rights need it. */
struct amb_rights_of {
    const struct amb_role *const *roles;
    size_t role_count;
    const char *user, *tenant; /* at most AMB_ROLE_NAME_MAX bytes, without dots and wildcards */
};

/* One line of a list. */
struct amb_right {
    const char *pattern; /* with names for %u and %t, and without '=' */
    uint32_t len;
    bool names_only;
    const struct amb_role *role;
    const struct amb_config_strings *list; /* where it was written, */
    size_t index;                          /* ... and as which item */
};

struct amb_right_list {
    struct amb_right *items;
    uint32_t count;
};

struct amb_rights_side {
    struct amb_right_list allow, deny;
};

struct amb_rights {
    uint32_t refs;
    struct amb_rights_table *table; /* that lists it; NULL: none */
    struct amb_rights_side publish, subscribe;
    const char **shared; /* names that are the tenant's */
    uint32_t shared_count;
    bool request, reply, ucx;
    enum amb_admin admin;
    uint32_t heap; /* bytes of its allocation */
    char *key;     /* of the table's, an allocation of its own; NULL: none */
    size_t key_len;
    const struct amb_config *config; /* a reference: the roles are its. NULL: others keep them */
};

/* Denies that a subscription's pattern meets, by their index: a bit each. */
struct amb_rights_cut {
    uint64_t bits[AMB_ROLE_PATTERNS_MAX / 64];
};

enum amb_rights_answer {
    AMB_RIGHTS_NO,
    AMB_RIGHTS_NARROWED,
    AMB_RIGHTS_WHOLE,
};

/* The part of a topic or pattern of dead letters that is of their messages, and its length; NULL:
 * it is none. */
const char *amb_rights_of_dead(const char *pattern, size_t *len);

/* Patterns in all lists of the roles; more than AMB_ROLE_PATTERNS_MAX are too many for a user. */
size_t amb_rights_count(const struct amb_rights_of *of);
/* With one reference. EINVAL: too many patterns, or a name too long; ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_rights_make(const struct amb_rights_of *of,
                                               struct amb_rights **out);
static inline struct amb_rights *amb_rights_ref(struct amb_rights *rights)
{
    if (rights != NULL) {
        rights->refs++;
    }
    return rights;
}
/* Sets *rights to NULL, and does nothing else where it is NULL already. */
void amb_rights_unref(struct amb_rights **rights);
/* The configuration that the roles are of lives as long as the rights. Harmless twice. */
void amb_rights_keep(struct amb_rights *rights, const struct amb_config *config);

/*
 * May the topic be published to? *by (may be NULL): the line that says so. NULL: no line allows it,
 * or the rights are NULL. The topic was checked, and is no inbox.
 */
bool amb_rights_publish(const struct amb_rights *rights, const char *topic, size_t len,
                        const struct amb_right **by);
/*
 * May the pattern, which was checked and is about no inbox, be subscribed to? *cut: the denies that
 * narrow it. *by (may be NULL): as above; where the pattern is narrowed, the first of these denies.
 */
enum amb_rights_answer amb_rights_subscribe(const struct amb_rights *rights, const char *pattern,
                                            size_t len, struct amb_rights_cut *cut,
                                            const struct amb_right **by);
/* Is the topic, which the pattern matches, cut out of a subscription that was narrowed so? */
bool amb_rights_cuts_out(const struct amb_rights *rights, const struct amb_rights_cut *cut,
                         const char *topic, size_t len);
static inline bool amb_rights_cut_is_empty(const struct amb_rights_cut *cut)
{
    return (cut->bits[0] | cut->bits[1]) == 0;
}
/* Does the name of a group, a durable or a publisher belong to the tenant? */
bool amb_rights_shares(const struct amb_rights *rights, const char *name);
/* Bytes of the heap that they take; 0: they are NULL. */
static inline uint64_t amb_rights_heap(const struct amb_rights *rights)
{
    return rights == NULL ? 0 : rights->heap + rights->key_len;
}
static inline bool amb_rights_may_request(const struct amb_rights *rights)
{
    return rights == NULL || rights->request;
}
static inline bool amb_rights_may_reply(const struct amb_rights *rights)
{
    return rights == NULL || rights->reply;
}
static inline bool amb_rights_may_ucx(const struct amb_rights *rights)
{
    return rights == NULL || rights->ucx;
}
