/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of acknowledgements, groups, confirmations and deduplication, here and elsewhere. There
 * is one publisher process, one to eight consumer processes, and the same loop for each system.
 *
 *     main (this process): starts the others, takes the time, counts, judges
 *      ├─ publisher ── system->publish ── acks_room, acks_payload, acks_sent
 *      └─ consumers ── system->consume ── acks_take, acks_taken
 *
 * Every message says which it is, twice, and its other bytes are known: a consumer compares all of
 * them. The publisher stays within a window of the consumed messages. The credit goes by memory
 * that the processes share, so each system runs as fast as it can without losing anything.
 *
 * Threads: one in each process, beside those of the client libraries. Memory: `shared` is a mapping
 * of all processes; the rest is given back by their end.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACKS_MEMBERS_MAX 8u
#define ACKS_MESSAGES_MAX ((uint64_t)1 << 30)
#define ACKS_TOPIC "bench"

enum acks_ack {
    ACKS_NONE,
    ACKS_EXPLICIT,
    ACKS_CUMULATIVE
};
enum acks_confirm {
    ACKS_UNCONFIRMED,
    ACKS_ACCEPTED,
    ACKS_DELIVERED
};

/* The record of one consumer; the lines are its own. */
struct acks_member {
    _Alignas(128) _Atomic uint64_t taken; /* messages, told once a batch */
    uint64_t lost, again, disorder, damaged;
    uint8_t *seen; /* groups: a bit for each sequence */
};

struct acks_shared {
    struct acks_member members[ACKS_MEMBERS_MAX];
    _Alignas(128) _Atomic uint64_t sent;
    _Atomic uint64_t confirmed;
    _Alignas(128) _Atomic unsigned ready; /* processes */
    _Atomic bool is_going, is_over;       /* is_over: publish no more */
    _Atomic bool is_stopped;              /* everything is there: consumers end */
    uint64_t unacked;                     /* by the server, afterwards */
};

struct acks_job {
    const struct acks_system *system;
    const char *address; /* of the server, as the system has it */
    const char *topic;   /* of plain messages; those of logs have ACKS_TOPIC, and those of Redis */
    bool is_stepwise;    /* says each step and waits for a line: others run at the same time */
    enum acks_ack ack;
    enum acks_confirm confirm;
    bool is_stored; /* through a log of the server's, even where nothing else asks for one */
    bool is_named;  /* repeats of the publisher's are dropped */
    bool is_push;   /* JetStream: the server sends by itself */
    bool is_group;  /* each message to one of the members */
    unsigned members;
    unsigned batch;   /* messages asked for and acknowledged at a time */
    unsigned pending; /* unconfirmed, unacknowledged ones at most */
    size_t size;
    uint64_t window; /* messages sent and not consumed */
    struct acks_shared *shared;
    uint8_t *payload;        /* the publisher's, `size` bytes */
    const uint8_t *expected; /* the content that a consumer compares with */
    uint64_t next;           /* publisher: to be sent; consumer: expected at least */
    uint64_t mine;           /* consumer: taken and not told yet, in this process */
    uint64_t seen_consumed;  /* publisher: by the last look */
};

/* One messaging system. Each call is made in a process of its own; publish and consume return
 * when told. */
struct acks_system {
    const char *name;
    const char *(*refuses)(const struct acks_job *job); /* why not, or NULL */
    void (*prepare)(const struct acks_job *job);        /* streams and groups */
    void (*publish)(struct acks_job *job);
    void (*consume)(struct acks_job *job, unsigned member);
    uint64_t (*unacked)(const struct acks_job *job); /* by the server, afterwards */
};

extern const struct acks_system acks_ambroker, acks_nats, acks_redis;

/* Ends the process with a sentence. */
_Noreturn void acks_fail(const char *what, const char *why);

/* Says that this process is ready and waits for the others. */
void acks_ready(struct acks_job *job);

/* How many messages may be sent now, at most job->batch; 0: none, flush and acks_wait. */
uint64_t acks_room(struct acks_job *job);
void acks_wait(void);

static inline bool acks_is_over(const struct acks_job *job)
{
    return atomic_load_explicit(&job->shared->is_over, memory_order_relaxed);
}

static inline bool acks_is_stopped(const struct acks_job *job)
{
    return atomic_load_explicit(&job->shared->is_stopped, memory_order_relaxed);
}

/* The next message's bytes, until the next call. */
const void *acks_payload(struct acks_job *job);
/* The buffer that acks_payload gave has been handed to the library. */
void acks_sent(struct acks_job *job);
void acks_confirmed(struct acks_job *job, uint64_t count);

/* Compares a message; acks_taken tells of those since. */
void acks_take(struct acks_job *job, unsigned member, const void *data, size_t len);
void acks_taken(struct acks_job *job, unsigned member);
