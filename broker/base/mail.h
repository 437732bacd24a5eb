/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything one thread wants of another: a node on the target's inbox with the function that the
 * target runs. Nothing else crosses threads, so `grep amb_mail_post` lists every crossing.
 *
 * An inbox is an intrusive stack, taken whole and turned around. It cannot be full, a post is one
 * compare-and-swap, and mail of one sender arrives in the order of posting. Mail of A to C that A
 * posted before its mail to B arrives at C before anything that B posts in answer.
 *
 * Threads: post from any; run from the inbox's owner. Memory: the mail is embedded in the object it
 * speaks of, and is the owner's from the post until its function runs.
 */
#pragma once

#include "wire/base/mpsc.h"
#include "wire/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_mail;
/* `owner` is what the inbox was made with: a worker, or the control thread. */
typedef void (*amb_mail_fn)(struct amb_mail *mail, void *owner);

struct amb_mail {
    struct amb_mpsc_node node;
    amb_mail_fn fn;
};

struct amb_inbox {
    struct amb_mpsc posted;
    _Atomic uint32_t sleeping; /* 1: the owner is in, or on its way into, its wait */
    int bell;                  /* eventfd: rung only if `sleeping` was set */
    void *owner;
};

/* ELIMIT without descriptors. */
AMB_MUST_CHECK enum amb_status amb_inbox_init(struct amb_inbox *inbox, void *owner);
/* Mail that is still there is dropped: its owners free what it is embedded in. */
void amb_inbox_fini(struct amb_inbox *inbox);
void amb_mail_post(struct amb_inbox *to, struct amb_mail *mail, amb_mail_fn fn);
/* Runs everything posted so far; returns how much that was. */
unsigned amb_inbox_run(struct amb_inbox *inbox);
/* Before waiting on the bell: false if there is mail and the owner must not sleep. */
AMB_MUST_CHECK bool amb_inbox_arm(struct amb_inbox *inbox);
/* After the wait, or instead of it: empties the bell. */
void amb_inbox_disarm(struct amb_inbox *inbox, bool rang);
