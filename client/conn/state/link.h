/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a connection's link: how a thread sleeps on it, frames that it has and has not sent,
 * and its end. drive/arm.c, drive/lock.c and drive/ucx.c work on it; session/link_events.c notes
 * the end.
 *
 * Threads: under the connection's lock. Memory: the epoll is closed, and UCX is ended, by the
 * session.
 */
#pragma once

#include "wire/base/rhythm.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_ucx_context;
struct amb_ucx_worker;

struct amb_conn_link {
    bool must_flush;        /* frames or flow values were given to the link */
    bool may_flush;         /* ... and the I/O thread sends them at its next turn but one */
    bool has_costly_poll;   /* a poll is a system call: not at every look */
    bool is_bulk;           /* many messages at a time come or go: a wait is not worth a spin */
    bool has_spoken;        /* a frame was sent since the last message was given back */
    uint32_t answers;       /* messages in a row that were given back after such a frame */
    struct amb_rhythm flow; /* of messages that are given back one by one */
    bool is_armed;          /* the link shall wake its sleeper, */
    bool is_armed_for_room; /* ... also when there is room for what is queued. */
    bool is_at_rest;        /* Its sleeper polls the descriptor itself: amb_conn_rest. */
    bool is_closing, is_closed;
    bool is_down; /* said by the link, and looked at after the poll; session.link_status is why */
    int64_t trimmed_ns; /* when the link was last asked for memory that it does not need */
    int epoll_fd;       /* has the link's descriptor alone, edge triggered; -1: none */
    const char *path;   /* amb_msg_path of what comes by copy */
};

/* Only of a link of UCX. */
struct amb_conn_ucx {
    struct amb_ucx_context *context;
    struct amb_ucx_worker *worker;
};

static inline void amb_conn_link_init(struct amb_conn_link *link)
{
    link->path = "";
    link->epoll_fd = -1;
}
