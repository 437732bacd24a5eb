/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection: what is read, what waits to be written, requests without an answer, and
 * when each side spoke last. drive/control.c and session/dispatch.c work on it.
 *
 * Threads: under the connection's lock. Memory: the reader's, and one buffer for what waits.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/codec/control.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct amb_tls;

struct amb_conn_control {
    int fd;              /* -1: none */
    struct amb_tls *tls; /* NULL: plain */
    int passed_fd;       /* came with the message that is being read; -1 */
    struct amb_control_reader reader;
    uint8_t *out; /* packed messages that the socket did not take */
    size_t out_len, out_cap;
    struct amb_list_node requests;
    uint64_t last_request;
    int64_t heard_ns, ping_ns; /* the broker was heard, we spoke */
    int64_t heartbeat_ns, peer_timeout_ns;
};

static inline void amb_conn_control_init(struct amb_conn_control *control)
{
    control->fd = control->passed_fd = -1;
    amb_control_reader_init(&control->reader);
    amb_list_init(&control->requests);
}

static inline void amb_conn_control_fini(struct amb_conn_control *control)
{
    amb_control_reader_fini(&control->reader);
    free(control->out);
    control->out = NULL;
}
