/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics, subscriptions, queues and sessions of a shard, copied into their slots of the counters.
 *
 * A pass goes through all of them, some a turn. One begins ten times a second while something
 * moves, and takes little of a turn each time. One that a view has asked for takes a part of each
 * turn, and its end is told. Where nothing moves there is no pass: a shard that sleeps is not
 * woken.
 *
 * Threads: the shard's worker; amb_objects_ask on any other. Memory: the slots.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/list.h"
#include "wire/counters/layout.h"

#include <stdint.h>

struct amb_shard;

/* One question, the caller's until it is posted and after `done`. */
struct amb_objects_ask {
    struct amb_mail mail;
    struct amb_list_node node;
    enum amb_counters_scope scope; /* the objects that are to be brought up to date */
    struct amb_inbox *to;          /* where `done` is told */
    amb_mail_fn done;
};

/* When `done` runs, all objects of that scope are in their slots, as they were when the shard read
 * this, or later. */
void amb_objects_ask(struct amb_shard *shard, struct amb_objects_ask *ask);

/* Part of a turn: a part of a pass, where one is due. Readers of traced batches are looked at, too.
 */
void amb_objects_turn(struct amb_shard *shard);
/* When the next part is due; INT64_MAX: when something moves. It is asked before a sleep, and so
 * tells the memory in use. */
int64_t amb_objects_due(struct amb_shard *shard);
/* Nobody runs the shard any more: questions are answered as things are. */
void amb_objects_end(struct amb_shard *shard);
/* Something has moved. */
void amb_objects_moved(struct amb_shard *shard);
