/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections by where they come from. A crowd has one IPv4 address, or one prefix of 64 bits of
 * IPv6, for one host may have all addresses that begin so. On a Unix socket a crowd has one uid.
 * Threads: owner. Memory: a table for `capacity` crowds, made at the start.
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
    uint8_t kind;    /* the owner's number for that struct */
};

struct amb_crowd {
    uint8_t key[AMB_CROWD_KEY_SIZE];
    uint32_t count;              /* of its connections; 0: the place is free */
    struct amb_list_node oldest; /* struct amb_crowd_member.node, the oldest first */
};

struct amb_crowds {
    struct amb_crowd *all;
    uint32_t capacity;
    uint32_t used; /* no place behind these was ever taken */
    uint64_t last; /* number of the newest member */
};

AMB_MUST_CHECK enum amb_status amb_crowds_init(struct amb_crowds *crowds, uint32_t capacity);
/* Harmless twice, and on zeros. */
void amb_crowds_fini(struct amb_crowds *crowds);
/* The crowd of an address. Of another family than IPv4 and IPv6: all zero. */
void amb_crowd_key_of(const struct sockaddr_storage *from, uint8_t key[AMB_CROWD_KEY_SIZE]);
/* The crowd of a uid on the Unix socket, which is no crowd of an address. */
void amb_crowd_key_of_uid(uid_t uid, uint8_t key[AMB_CROWD_KEY_SIZE]);
/* Puts one more connection into that crowd, as the newest of all. NULL: no place is free for a new
 * crowd. */
struct amb_crowd *amb_crowds_add(struct amb_crowds *crowds, const uint8_t key[AMB_CROWD_KEY_SIZE],
                                 struct amb_crowd_member *member);
void amb_crowds_remove(struct amb_crowd *crowd, struct amb_crowd_member *member);
/* `by` is the same connection in another struct: in the crowd of `member`, and as old. */
void amb_crowds_replace(struct amb_crowd_member *member, struct amb_crowd_member *by);
/* The crowd that has most connections; of several such crowds the one with the oldest connection.
 * Else the newest of a flood from many addresses would always go, and its oldest stay. NULL: there
 * is no connection. */
const struct amb_crowd *amb_crowds_largest(const struct amb_crowds *crowds);
