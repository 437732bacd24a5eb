/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the delivery checker shares: the logs, and the messages that publishers say they
 * have posted. Read in this order: publishers (check_posted.c), subscribers without
 * acknowledgements (check_read.c) and with (check_acks.c). Then come the deliveries that publishers
 * were told of.
 *
 * Threads: one. Memory: until the end of the program.
 */
#pragma once

#include "tests/delivery/record.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CHECK_RESTARTS_MAX 64u
#define GROUP_TOPICS (DELIVERY_TOPICS / DELIVERY_GROUPS)

struct log {
    const char *path;
    const struct delivery_head *head;
    const struct delivery_record *records;
    uint64_t count;
    bool has_ended;
};

/* The messages that one publisher posted to one topic. Arrays are of number i + 1. */
struct posted {
    uint32_t *sizes;
    uint32_t *stamped; /* how many of the first i numbers say whose they are and were, as far as
                          anybody knows, accepted; [count + 1] */
    uint8_t *doubtful; /* was refused or is unknown */
    uint8_t *got;      /* how many subscriptions' logs have it, a group's members being one */
    uint64_t count, capacity;
    uint64_t settled, accepted, unknown; /* numbers */
    uint64_t base; /* this and a number: no other message of the topic has it */
};

struct publisher {
    uint64_t id;
    bool has_ended, is_confirmed;
    struct posted topics[DELIVERY_TOPICS];
};

/* Sums over everything that was read. */
struct sums {
    uint64_t received, lost, acked;
    uint64_t told;               /* how often subscriptions heard of another broker */
    uint64_t delivered, dropped; /* told to publishers */
};

struct check {
    bool is_killed;
    uint64_t restarts; /* brokers replaced */
    int64_t starts_ns[CHECK_RESTARTS_MAX];
    uint64_t wrongs;
    struct publisher *publishers;
    size_t publisher_count;
    uint64_t tops[DELIVERY_TOPICS]; /* the last sequence that any subscriber saw */
    struct sums sums;
};

extern struct check the_check;

/* Says what is wrong, the first few times. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program if there is no memory. */
void *must(void *memory);

void read_publisher(const struct log *log);
/* After all publishers. */
void number_messages(void);
/* The publisher's place in the array; publisher_count: there is none. */
size_t publisher_at(uint64_t id);
/* A message as `r` describes itself was posted; NULL: it was not. */
struct posted *posted_of(const struct delivery_record *r);
/* After all subscribers: the words to a publisher on its deliveries are true. */
void judge_told(const struct log *log);

/* The highest sequence of each topic, into tops. */
void find_tops(const struct log *log);
void read_subscriber(const struct log *log);

/* A subscriber with acknowledgements of its own, or all members of the group among the logs. */
void read_acknowledging(const struct log *logs, size_t count, uint32_t mode);

/* Of a topic in all publishers' words. */
struct topic_sum {
    uint64_t accepted, posted;
    bool all_ended;
};
struct topic_sum sum_of(uint32_t topic);

static inline bool is_received(const struct delivery_record *r)
{
    return r->kind == DELIVERY_RECEIVED || r->kind == DELIVERY_WRONG;
}

/* The broker that took it: 0, the first, to `restarts`. */
static inline uint64_t life_of(const struct delivery_record *r)
{
    uint64_t life = 0;
    while (life < the_check.restarts && the_check.starts_ns[life] <= r->time_ns) {
        life++;
    }
    return life;
}

static inline bool has_topic(const struct log *log, uint32_t topic)
{
    return (log->head->groups >> topic / GROUP_TOPICS & 1) != 0;
}
