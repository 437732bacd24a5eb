/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts and options of a connection, kept for another session. drive/back.c waits for a
 * session, session/reconnect.c brings it about. Threads: under the connection's lock. Memory: the
 * configuration, and a copy of the options.
 */
#pragma once

#include "wire/base/status.h"

#include <amb/amb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct amb_client_config;

struct amb_reconnect {
    bool is_on;
    bool is_running;      /* the thread */
    bool is_former_known; /* there was a session, which the broker is to know */
    _Atomic bool must_stop;
    int cancel_fd;    /* eventfd: the thread shall look at must_stop; -1: none */
    uint32_t missing; /* publishers and subscriptions that are not back yet */
    uint64_t tried;   /* attempts since the loss */
    uint64_t former_epoch;
    struct amb_client_config *config; /* owned: URLs, files, transports; NULL: not is_on */
    struct amb_options options;
};

/* Keeps what a later attempt needs, unless the options want none: takes *config then, and sets it
 * to NULL. `name` stays the caller's. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_again_init(struct amb_reconnect *again,
                                              struct amb_client_config **config, const char *name,
                                              const struct amb_options *options);
/* Keeps the request of a publisher or a subscription, packed, in *out of *len bytes. *out is the
 * caller's to free. Both stay as they are where there will be no other session. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_again_keep(const struct amb_reconnect *again,
                                              const struct ProtobufCMessage *message, uint8_t **out,
                                              size_t *len);
void amb_again_fini(struct amb_reconnect *again);
