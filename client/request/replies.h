/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: requests of a connection wait here, each for the message that answers it. With its first
 * request a connection subscribes to its inbox, the topic "$INBOX." and 128 random bits. A request
 * carries that topic and its own number. Numbers cannot be guessed from each other, so a receiver
 * can answer its own request and no other. Once a request is over its number names nothing any
 * more, and a message that comes for it is dropped here.
 *
 *   put ─► entered ─┬─ settled: nobody reads the topic, or it was refused ─► done
 *                   ├─ reply with its number in the inbox ─► done
 *                   └─ deadline, loss of the session, close ─► done
 *   done ─► its waiter, or its callback in amb_poll: once
 *
 * Threads: under the connection's lock, unless said. Memory: one allocation a request, at most
 * AMB_REQUESTS_MAX of them; a table by number that doubles.
 */
#pragma once

#include "wire/base/list.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_REQUESTS_MAX 65536u

#define AMB_PROP_REPLY "$reply" /* of a request: the inbox's topic */
#define AMB_PROP_REQUEST "$id"  /* of both: the request's number, 8 bytes, little endian */

struct amb_conn;
struct amb_pub;
struct amb_sub;

struct amb_asked {
    struct amb_list_node node;   /* in `open` or `done`; alone: its waiter's */
    struct amb_list_node of_pub; /* not settled yet */
    uint64_t number;
    uint64_t seq; /* of its publisher */
    int64_t deadline_ns;
    enum amb_status status;
    struct amb_msg *reply;
    bool is_put; /* its publisher has it: no call holds it any more */
    bool is_done;
    amb_reply_fn on_reply; /* NULL: a thread waits for it */
    void *arg;
};

struct amb_replies {
    struct amb_sub *sub;
    char topic[64];
    struct amb_list_node open, done;
    struct amb_asked **cells; /* by number & mask */
    uint64_t mask, last;
    uint8_t key[16]; /* of the numbers */
    uint32_t count;
    uint64_t unwanted;    /* messages that answered nothing */
    bool is_callback_run; /* one thread at a time */
};

/* Subscribes to the inbox at the first call. No lock held. It stays until the connection ends.
 * Errors of amb_subscribe. */
enum amb_status amb_replies_open(struct amb_conn *conn);
void amb_replies_fini(struct amb_conn *conn);

/* Enters a request; ELIMIT, ENOMEM. */
enum amb_status amb_replies_enter(struct amb_conn *conn, struct amb_asked *asked);
/* It was put as message seq of pub. */
void amb_replies_put(struct amb_conn *conn, struct amb_asked *asked, struct amb_pub *pub,
                     uint64_t seq);
/* Its waiter, or its callback, takes it: forgotten, the caller's to free. */
void amb_replies_leave(struct amb_conn *conn, struct amb_asked *asked);

/* Gives replies that have come to their requests, and ends those whose time is over. */
void amb_replies_turn(struct amb_conn *conn);
/* The same if a deadline has passed, from timers; looks at the link first, unless a driver
 * that is awake does. */
void amb_replies_timer(struct amb_conn *conn, int64_t now_ns);
/* Is a callback due? */
bool amb_replies_is_due(const struct amb_conn *conn);
/* How long amb_poll may wait. */
int64_t amb_replies_patience(const struct amb_conn *conn, int64_t timeout_ns);
/* Runs callbacks, no lock held; returns how many. */
unsigned amb_replies_run(struct amb_conn *conn, unsigned max);
/* The connection ends: everything open is done with `why`. */
void amb_replies_end(struct amb_conn *conn, enum amb_status why);

/* An amb_asking_fn: messages first to last of a publisher of requests are settled so. */
void amb_asking_settled(struct amb_pub *pub, uint64_t first, uint64_t last, enum amb_status status,
                        uint32_t matched);
