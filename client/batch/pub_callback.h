/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settled callbacks of a publisher, and its memory, which goes with the last of them.
 * Threads: as each function says; callbacks of one publisher never overlap. Memory: frees
 * publishers.
 */
#pragma once

#include <amb/amb.h>
#include <pthread.h>
#include <stdbool.h>

struct amb_pub;

struct amb_pub_callback {
    amb_settled_fn on_settled;
    void *arg;
    bool is_running; /* on `thread` */
    bool must_free;  /* the publisher was closed inside it: freed when it returns */
    pthread_t thread;
};

/* Runs at most max of its callbacks; returns how many ran. Frees it if it was closed inside one of
 * them. This thread is inside a callback of the connection, see inside.h. Connection's lock held,
 * given up meanwhile. */
unsigned amb_pub_run_settled(struct amb_pub *pub, unsigned max);
/* Runs all of them. No lock held. */
void amb_pub_call_settled(struct amb_pub *pub);
/* Frees it: nothing refers to it any more. Connection's lock held. */
void amb_pub_free(struct amb_pub *pub);
