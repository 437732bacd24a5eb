/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users who are kept out until they are let in again, or until the broker ends. They are known by
 * name, as people see it: of a users file, else a uid or "tcp". So a reload changes nothing.
 *
 * The list is the whole broker's. An operator of one tenant has a share of it for that tenant, so
 * that others find room.
 *
 * Threads: the control thread. Memory: an entry for each, at most AMB_BLOCKLIST_MAX.
 */
#pragma once

#include "broker/auth/users.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_BLOCKLIST_MAX 4096u

struct amb_blocklist_user {
    struct amb_blocklist_user *next;
    int64_t since_ns; /* since 1970 */
    char name[AMB_AUTH_NAME_MAX];
    char tenant[AMB_USER_NAME_MAX + 1]; /* "": none */
};

/* Zero-initialised. */
struct amb_blocklist {
    struct amb_blocklist_user *first;
    uint32_t count;
};

/* ESTATE: he is blocked already. ELIMIT, ENOMEM. tenant: "" without a users file. percent: of the
 * part that users of other tenants leave, so much may be of his tenant. */
AMB_MUST_CHECK enum amb_status amb_blocklist_add(struct amb_blocklist *blocked, const char *name,
                                                 const char *tenant, unsigned percent,
                                                 int64_t now_ns);
/* False: he is not blocked. */
bool amb_blocklist_remove(struct amb_blocklist *blocked, const char *name);
/* NULL: he is not blocked. */
const struct amb_blocklist_user *amb_blocklist_find(const struct amb_blocklist *blocked,
                                                    const char *name);
/* Harmless twice, and on zeros. */
void amb_blocklist_fini(struct amb_blocklist *blocked);
