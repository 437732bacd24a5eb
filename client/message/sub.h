/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription. An arrival is appended under two locks, the connection's and the subscription's.
 * Taking a message needs the second alone, so the next message of a batch costs no look at the
 * link. Memory: counted: the user's handle and each arrival.
 */
#pragma once

#include "client/conn/spinlock.h"
#include "client/message/acks.h"
#include "client/message/arrival.h"
#include "client/message/release.h"
#include "wire/base/list.h"

#include <amb/amb.h>
#include <pthread.h>

struct amb_conn;
struct amb_landing;

/* Topic ids of one subscription: open hashing, at most half full. */
struct amb_topic_table {
    struct {
        uint32_t id;
        struct amb_topic_name *name;
    } * slots;
    uint32_t mask, count;
};

struct amb_sub {
    struct amb_conn *conn;
    uint32_t handle;
    _Atomic uint32_t refs;
    amb_msg_fn on_message;
    void *arg;
    uint64_t credit_msgs, credit_bytes;
    struct amb_landing *landing; /* payloads are brought elsewhere, or not at all; or NULL */
    enum amb_lazy lazy;
    bool is_light; /* HEADERS, and no member of a queue: the broker keeps no payload for it */

    struct amb_spinlock lock;
    struct amb_list_node arrived;   /* deliveries, oldest first; by priority if it has_ranks */
    bool has_ranks;                 /* higher ones overtake what was not taken yet */
    struct amb_list_node *lower[2]; /* then: the first below HIGH, and below NORMAL */
    uint64_t delivered, lost, last_seq, carry_lost;
    enum amb_loss carry_loss;
    _Atomic bool has_ready; /* amb_next would find something; written under lock */

    /* Under the connection's lock. */
    struct amb_release release;
    struct amb_acks acks;
    uint64_t saved_msgs, saved_bytes; /* back, and not said in a hurry */
    struct amb_topic_table topics;
    uint64_t names;   /* that have come */
    uint8_t *resumed; /* the position it was begun with, or NULL: position.c */
    size_t resumed_len;
    int64_t since_ns;     /* messages of other topics came since then, by the broker's clock */
    _Atomic bool is_shut; /* gives no more; written under the lock */
    bool is_user_done;    /* closed by the program */
    bool has_left;        /* the broker was asked to end it */
    bool is_left;         /* and has */
    bool is_gone;         /* its handle is another one's: no word on it can leave */
    bool is_open;         /* the broker has answered */
    bool is_restarted;    /* the broker is another one: nobody knows what was lost before the next
                             message */
    uint8_t *ask;         /* the Subscribe, packed, for another session */
    size_t ask_len;
    bool is_choosy; /* has a filter: a gap in the sequence is no loss unless the broker says so */
    bool is_inbox;  /* the connection's own, for replies */
    bool in_callback;
    pthread_t callback_thread;
};
