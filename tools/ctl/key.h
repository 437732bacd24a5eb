/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `broker-ctl key`: credentials of users, as files of clients. It asks no broker.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_key_new(struct amb_ctl *ctl);
enum amb_exit amb_ctl_key_show(struct amb_ctl *ctl);

/* A client's file with a new key; each may be NULL. */
struct amb_key_parts {
    const char *user, *ca, *url;
};

/* Are the user's name and the URL good? It is said if not. */
enum amb_exit amb_ctl_key_check(const struct amb_key_parts *wanted);
/* Makes the file at `path`; a file that is there is left alone. credential: of its key, as a users
 * file has it, AMB_CREDENTIAL_MAX + 1 bytes. */
enum amb_exit amb_ctl_key_make(const struct amb_key_parts *wanted, const char *path,
                               char *credential);
