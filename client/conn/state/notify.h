/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the program: the descriptors of amb_fd, the callbacks that it wants, and the events that
 * wait for amb_poll. drive/notify.c and session/poll.c work on it.
 *
 * Threads: under the connection's lock, events under a lock of their own. Memory: descriptors,
 * closed by the end of the connection; events are dropped, oldest first, where no thread polls.
 */
#pragma once

#include "wire/base/list.h"

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_CONN_EVENTS_MAX 64u

struct amb_conn_notify {
    int event_fd; /* readable while there is news; only written if is_fd_used */
    int user_fd;  /* amb_fd: event_fd, or in POLL mode an epoll of everything */
    int timer_fd; /* POLL mode: heartbeat and linger; -1 */
    _Atomic bool is_fd_used;
    bool is_fd_set;
    bool has_news;                      /* a message has arrived since amb_poll */
    uint32_t settled_wanted;            /* publishers with on_settled */
    uint32_t messages_wanted;           /* subscriptions with on_message */
    struct amb_list_node rooms_awaited; /* publishers that had no room: struct amb_room_wish.node */
    struct amb_list_node rooms_ready;   /* ... and may have some now: to be told */
    bool is_room_ready;                 /* the same of publishers that the program does not know */
    uint32_t next_sub;                  /* its callbacks come first next time */
    int64_t reply_ns; /* the first deadline of a request, perhaps an earlier one; INT64_MAX: none */
};

/* An event with its text, as it waits for amb_poll. */
struct amb_event_cell {
    struct amb_event event;
    char text[128];
};

struct amb_conn_events {
    pthread_mutex_t lock; /* a leaf */
    amb_event_fn on_event;
    void *arg;
    uint32_t first, count;
    bool is_running;           /* on_event */
    bool is_awaited;           /* a close waits until it does not */
    pthread_t thread;          /* that it runs on, */
    const struct amb_pub *pub; /* and of whom it tells there, or NULL */
    const struct amb_sub *sub;
    struct amb_event_cell cells[AMB_CONN_EVENTS_MAX];
};

static inline void amb_conn_notify_init(struct amb_conn_notify *notify)
{
    notify->event_fd = notify->user_fd = notify->timer_fd = -1;
    notify->reply_ns = INT64_MAX;
    amb_list_init(&notify->rooms_awaited);
    amb_list_init(&notify->rooms_ready);
}

static inline void amb_conn_events_init(struct amb_conn_events *events)
{
    (void)pthread_mutex_init(&events->lock, NULL);
}

static inline void amb_conn_events_fini(struct amb_conn_events *events)
{
    (void)pthread_mutex_destroy(&events->lock);
}
