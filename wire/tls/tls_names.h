/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and addresses of this machine, for a certificate of its broker.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "wire/base/interface.h"
#include "wire/tls/tls_issue.h"

#include <limits.h>

struct amb_tls_own_names {
    char host[HOST_NAME_MAX + 1];
    char text[AMB_TLS_NAMES_MAX - 4][AMB_INTERFACE_ADDRESS_MAX];
    const char *names[AMB_TLS_NAMES_MAX]; /* the host's name, localhost, loopback, and addresses */
    size_t count;
    size_t first; /* of the addresses that other machines can use */
};

/* Without a table of interfaces: all but addresses. names point into *out. */
void amb_tls_own_names_read(struct amb_tls_own_names *out);
