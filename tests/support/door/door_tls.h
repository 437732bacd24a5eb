/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broker with all three doors, whose certificate was made for the test.
 * Threads: the test's. Memory: none.
 */
#pragma once

#include "tests/support/door/door_harness.h"
#include "tests/support/tls/tls_made.h"

/* token: the option auth.token. */
static inline void door_open_tls(struct door *door, const struct tls_made *made, const char *token)
{
    char certificate[300], key[300], error[512] = "";
    static const char *const urls[] = {"unix://%s/broker.sock", "tcp://127.0.0.1:0",
                                       "tls://127.0.0.1:0", NULL};
    (void)snprintf(certificate, sizeof(certificate), "tls.certificate=%s",
                   tls_made_path(made, "server.pem"));
    (void)snprintf(key, sizeof(key), "tls.key=%s", tls_made_path(made, "server.key"));
    const char *const options[] = {certificate, key, token, NULL};
    if (door_try(door, urls, options, error, sizeof(error)) != AMB_OK) {
        fail_msg("the broker does not start: %s", error);
    }
}
