/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a steady flow of single messages, here and elsewhere: one publisher process, one
 * subscriber process, the same two loops for each system.
 *
 *     main: publisher   sleeps until the next message is due ── system->publish
 *           subscriber  system->receive ── rates_take
 *
 * Threads: one of a system's calls at a time, on the main thread. Memory: a system keeps its one
 * connection in variables of its own, until the process ends.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RATES_TOPIC "bench"

/* Head of each message. */
struct rates_head {
    uint64_t number; /* from 0 */
    int64_t sent_ns; /* CLOCK_MONOTONIC */
};

/* One messaging system. A call that fails ends the process. */
struct rates_system {
    const char *name;
    void (*open)(const char *address); /* of a publisher: returns when there is a subscriber */
    void (*publish)(const void *data, size_t len);  /* the message leaves before this returns */
    void (*subscribe)(const char *address);         /* active when this returns */
    void (*receive)(void);                          /* sleeps, then rates_take of one message */
    void (*proxy)(const char *in, const char *out); /* a broker; NULL: it is another program */
};

extern const struct rates_system rates_ambroker, rates_nats, rates_redis, rates_zmq;

/* Ends the process with a sentence. */
_Noreturn void rates_fail(const char *what, const char *why);

/* Counts a message that has come. */
void rates_take(const void *data, size_t len);
