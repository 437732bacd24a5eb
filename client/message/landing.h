/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads that are brought into other memory than they came in: a GPU's, or the application's own.
 * It happens when a message is taken, on the thread that takes it, in the order of arrival. Where
 * there is no memory the message waits in front of the others until some is given back.
 *
 *   arrived ─► taken (bring.c): memory of the allocator or of our pool, copy ─► the program
 *
 * Threads: takers one after the other, by the lock of the landing; a release from any thread.
 * Memory: one block a subscription.
 */
#pragma once

#include "client/message/sub.h"

#include <amb/amb.h>
#include <stdatomic.h>
#include <stdbool.h>

struct amb_conn;
struct amb_gpu_buffer;

/* *out: NULL if these options want none. ENOMEM, ENOTSUP, ENOTFOUND, ECUDA: the last
 * error. */
enum amb_status amb_landing_create(struct amb_conn *conn, const struct amb_sub_options *options,
                                   struct amb_landing **out);
/* The memory that its deliveries may lie in: CUDA or AS_SENT; else HOST. landing may be NULL. */
enum amb_mem amb_landing_mem(const struct amb_landing *landing);
void amb_landing_destroy(struct amb_landing **landing);
/* May a link bring payloads into the memory that is wished for, by itself? landing may be NULL. */
bool amb_landing_is_by_link(const struct amb_landing *landing);
/* Device memory for a payload that a link brings, without a call of the driver; NULL: none is there
 * yet. */
struct amb_gpu_buffer *amb_landing_far_get(struct amb_landing *landing, uint64_t len);
/* Not taken by amb_landing_take. NULL is allowed. */
void amb_landing_far_put(struct amb_landing *landing, struct amb_gpu_buffer *buffer);
/* Would amb_landing_take find something? */
bool amb_landing_has_ready(const struct amb_sub *sub);
/* How long to wait before memory is asked for again. */
int64_t amb_landing_patience(const struct amb_sub *sub, int64_t timeout_ns);
/* The message that waits for memory, for its release; NULL: none does. Any lock may be held. */
struct amb_msg *amb_landing_let_go(struct amb_landing *landing);
/* Gives back what the side of a released message holds; its delivery has sides. */
void amb_landing_leave(struct amb_msg *msg);
/* Bytes that were copied from host to device. */
uint64_t amb_landing_staged(const struct amb_sub *sub);

/* Would amb_sub_take find something? */
static inline bool amb_sub_has_ready(const struct amb_sub *sub)
{
    return sub->landing == NULL
               ? atomic_load_explicit(&sub->arrivals.has_ready, memory_order_acquire)
               : amb_landing_has_ready(sub);
}
