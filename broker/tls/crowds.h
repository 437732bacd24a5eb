/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections by where they come from: an IPv4 address, or the first 64 bits of an IPv6 address.
 * One host has all addresses that begin so. On a Unix socket it is a uid. Threads: owner. Memory: a
 * table for as many crowds as there are connections, made at the start.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define AMB_CROWD_KEY_SIZE 16u

/* One connection: embedded in its own struct. */
struct amb_crowd_member {
    struct amb_list_node node;
    uint64_t number; /* in the order in which all came */
    uint8_t kind;    /* its owner's word for that struct */
};

struct amb_crowd {
    uint8_t key[AMB_CROWD_KEY_SIZE];
    uint32_t count;              /* 0: nobody's */
    struct amb_list_node oldest; /* of its connections, the first to have come first */
};

struct amb_crowds {
    struct amb_crowd *all;
    uint32_t capacity;
    uint32_t used; /* behind them all are nobody's */
    uint64_t last; /* number of a member */
};

AMB_MUST_CHECK enum amb_status amb_crowds_init(struct amb_crowds *crowds, uint32_t capacity);
/* Harmless twice, and on zeros. */
void amb_crowds_fini(struct amb_crowds *crowds);
void amb_crowd_key_of(const struct sockaddr_storage *from, uint8_t key[AMB_CROWD_KEY_SIZE]);
void amb_crowd_key_of_uid(uid_t uid, uint8_t key[AMB_CROWD_KEY_SIZE]);
/* One more connection of that crowd. NULL: there are too many crowds. */
struct amb_crowd *amb_crowds_add(struct amb_crowds *crowds, const uint8_t key[AMB_CROWD_KEY_SIZE],
                                 struct amb_crowd_member *member);
void amb_crowds_remove(struct amb_crowd *crowd, struct amb_crowd_member *member);
/* The same connection, from now on in another struct: in its crowd, as old as it was. */
void amb_crowds_replace(struct amb_crowd_member *member, struct amb_crowd_member *by);
/* The crowd that has most connections; of several such crowds the one with the oldest connection.
 * Otherwise each newcomer of a flood from many addresses would go for the next one. NULL: there is
 * none. */
const struct amb_crowd *amb_crowds_largest(const struct amb_crowds *crowds);
