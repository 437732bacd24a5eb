/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One to four shards without threads, sockets and control thread: turned by hand under a simulated
 * clock, with a small memory. The orders of the control thread are called directly; shards'
 * questions to it are recorded. Clients are scripts on the other end of sim links (shard_client.h).
 *
 * Failures end the running CMocka test. Threads: one. Memory: everything is given back by
 * harness_fini, which fails the test if the broker's part was not.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/memory/bufpool.h"
#include "broker/shard/shard.h"

#include <stdbool.h>
#include <stdint.h>

#define HARNESS_SHARDS_MAX 4u
#define HARNESS_TOPICS_MAX 16u
#define HARNESS_CLIENTS_MAX 1024u

struct amb_config;
struct amb_topic;
struct shard_client;

struct shard_harness {
    struct amb_config *config;
    struct amb_membudget budget;
    unsigned count;
    struct amb_shard shards[HARNESS_SHARDS_MAX];
    struct amb_shard *peers[HARNESS_SHARDS_MAX];
    struct amb_inbox control;
    struct amb_shard_upcalls upcalls; /* of all shards; a test may set its own */
    int64_t now_ns;
    int64_t real_ahead_ns; /* the clock of the day, less now_ns; a test may set it */
    unsigned topic_count;
    unsigned topic_home[HARNESS_TOPICS_MAX];
    enum amb_priority topic_priority[HARNESS_TOPICS_MAX];
    uint32_t topic_main[HARNESS_TOPICS_MAX]; /* of other priorities than NORMAL */
    struct amb_topic *topics[HARNESS_TOPICS_MAX][HARNESS_SHARDS_MAX]; /* as each shard knows it */
    char names[HARNESS_TOPICS_MAX][64];
    unsigned client_count; /* ever made; a client's id is its index */
    struct shard_client *clients[HARNESS_CLIENTS_MAX];
};

/* config: libconfig text; NULL: 16 MiB of memory in segments of 2 MiB, topics that block. */
void harness_init(struct shard_harness *harness, unsigned shards, const char *config);
/* Ends all clients, and has topics forget what they retain: harness_fini finds that back then. */
void harness_forget(struct shard_harness *harness);
/* Ends all clients, then checks that every buffer, entry and frame is back. */
void harness_fini(struct shard_harness *harness);

/* A new topic with that home; returns its id. */
uint32_t harness_topic(struct shard_harness *harness, const char *name, unsigned home);
/* The same name with another priority, of the id; returns the id of that. */
uint32_t harness_priority(struct shard_harness *harness, uint32_t main, enum amb_priority priority);
/* As the shard knows it: introduced there if it was not. */
struct amb_topic *harness_topic_on(struct shard_harness *harness, uint32_t topic, unsigned shard);
/* amb_topic_shed without end. */
bool harness_shed(struct amb_topic *topic);
/* An entry of so many messages without bytes, with one reference, the caller's. */
struct amb_entry *harness_entry(struct amb_shard *shard, uint32_t count);
struct amb_topic *harness_home(struct shard_harness *harness, uint32_t topic);
/* The order with which the directory has a topic's home lend, or not any more, to the client's
 * shard. It is carried out by the next turns. */
void harness_lend(struct shard_harness *harness, uint32_t topic, const struct shard_client *client,
                  uint32_t handle, int subs, int holding);

/* One turn of one shard; a microsecond passes. Returns how much was done. */
unsigned harness_turn(struct shard_harness *harness, unsigned shard);
/* Turns all shards and clients until nothing happens any more. */
void harness_settle(struct shard_harness *harness);
void harness_pass(struct shard_harness *harness, int64_t ns);

/* The shard's pool takes all there is, up to 25 MiB in small pieces, and gives them back to itself.
 */
void harness_hog(struct amb_shard *shard);
/* Bytes of buffers out, on all shards. */
uint64_t harness_used(const struct shard_harness *harness);
/* Every invariant there is a function for. */
void harness_check(const struct shard_harness *harness);
