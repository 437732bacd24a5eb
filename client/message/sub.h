/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription. An arrival is appended under two locks, the connection's and the subscription's.
 * Taking a message needs the second alone, so the next message of a batch costs no look at the
 * link. The state of a feature is a part, in a header of state/.
 *
 * Threads: `callback` stands above `lock`, and is under the connection's lock where it changes. The
 * other fields above `lock`, but for `refs`, are set once. So are the credits and `is_choosy`,
 * which stand below. Memory: counted: the user's handle and each arrival.
 */
#pragma once

#include "client/conn/spinlock.h"
#include "client/message/arrival.h"
#include "client/message/release.h"
#include "client/message/state/acks.h"
#include "client/message/state/arrivals.h"
#include "client/message/state/life.h"

#include <amb/amb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_conn;
struct amb_landing;

struct amb_sub {
    struct amb_conn *conn;
    uint32_t handle;
    _Atomic uint32_t refs;
    struct amb_sub_callback callback;
    struct amb_landing *landing; /* payloads are brought elsewhere, or not at all; or NULL */
    enum amb_lazy lazy;
    bool is_light; /* HEADERS, and no member of a queue: the broker keeps no payload for it */

    struct amb_spinlock lock;
    struct amb_sub_arrivals arrivals;

    /* Under the connection's lock. */
    struct amb_release release;
    struct amb_acks acks;
    uint64_t saved_msgs, saved_bytes; /* back, and not said in a hurry */
    struct amb_sub_topics topics;
    struct amb_sub_position position;
    struct amb_sub_life life;
    uint64_t credit_msgs, credit_bytes;
    bool is_choosy; /* has a filter: a gap in the sequence is no loss unless the broker says so */
    bool is_inbox;  /* the connection's own, for replies */
};
