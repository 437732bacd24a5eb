/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message on its way into a publisher: the place of its payload, and its properties as one blob.
 * room.h chooses one of three ways:
 *
 *   small.h         | into the open batch
 *   publish_large.h | as a batch of its own
 *   commit.h        | into a slot of a lease segment
 *
 * Threads: any, no lock held. Memory: the caller's, for the call.
 */
#pragma once

#include "wire/base/status.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_conn;
struct amb_mem_place;

/* A plain publish of so many bytes and more goes into a slot if it can. */
#define AMB_PLAIN_LEASE_MIN UINT64_C(16384)

struct amb_put {
    const void *data; /* or pieces */
    const struct amb_iov *iov;
    uint64_t len;
    uint32_t iov_count;
    uint32_t blob_len, key_hash, ttl_ms;
    const uint8_t *blob;
    enum amb_mem mem; /* that the program has it in, for its record; 0: host memory */
    uint64_t expect;  /* the sequence that it must get; 0: any */
    bool is_device;   /* data is a GPU's memory, for a link that takes such: a batch of its own */
    bool is_lent;     /* data stays as it is until the message is settled */
    bool is_copied;   /* else: the call does not wait until the link has read it */
};

/* A message of the program's, copied into a struct of our size and checked. A failure
 * is the connection's last error. */
AMB_MUST_CHECK enum amb_status amb_put_read(struct amb_conn *conn, const struct amb_out *from,
                                            struct amb_out *to);
/* Key, content type, properties, time to live of a message; blob has AMB_PROPS_MAX bytes. */
enum amb_status amb_put_props(struct amb_conn *conn, const struct amb_out *message, uint8_t *blob,
                              struct amb_put *put);
/* Where its payload is. EINVAL: a piece is missing. */
enum amb_status amb_put_payload(const struct amb_out *message, struct amb_put *put);
/* Says that len bytes are more than the broker takes: ETOOLARGE. */
enum amb_status amb_put_too_large(struct amb_conn *conn, uint64_t len);
/* The memory that the program has a message in; place: the driver's answer of amb_staged_check. */
enum amb_mem amb_put_mem(const struct amb_out *message, const struct amb_mem_place *place);
/* Writes the pieces one behind the other. */
void amb_put_gather(uint8_t *to, const struct amb_put *put);
