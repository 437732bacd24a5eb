/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batches of a connection and the memory that they hold.
 *
 *   get ──► open ──► closed: on the link, behind it, kept to be sent again ──► put
 *            │                 ▲
 *            └─── packed ──────┘
 *
 * A batch that leaves at once is used again, one a publisher. One that stays is closed: it counts,
 * by what was allocated for it, in conn->batches.bytes. Where that has reached bytes_max no batch
 * is begun and nothing is leased; a large message must fit below it, or find nothing held. A batch
 * that was begun may always leave, so no thread waits for memory that waits for that thread. A
 * batch that would stay is packed first if it uses less than a quarter of its memory. It is copied
 * into a block of its own size then.
 *
 * Threads: the connection's lock held, and the publisher's for what is its own.
 * Memory: unused batches and blocks are kept, at most about 20 MiB a connection.
 */
#pragma once

#include "client/batch/batch.h"
#include "client/conn/conn.h"

/* max: what closed batches may hold. */
void amb_batches_init(struct amb_conn *conn, uint64_t max);
/* Frees what is unused. */
void amb_batches_fini(struct amb_conn *conn);

/* An unused batch of small messages, for `open`, with room for session.batch_bytes. NULL: no
 * memory.
 */
struct amb_batch *amb_pub_batch_get(struct amb_conn *conn);
/* The same for one large message, which will have a copy of `owned` bytes; it counts at once. */
struct amb_batch *amb_pub_large_get(struct amb_conn *conn, uint64_t owned);
/* The same for leased messages. */
struct amb_batch *amb_pub_commit_get(struct amb_conn *conn);
/* Gives any of them back, with what it holds. NULL is allowed. */
void amb_pub_batch_put(struct amb_conn *conn, struct amb_batch *batch);

/* How much a large message with a copy of `owned` bytes will count. */
uint64_t amb_batches_large(uint64_t owned);
/* May no batch be begun? Any thread, without the lock. */
static inline bool amb_batches_are_full(const struct amb_conn *conn)
{
    return atomic_load_explicit(&conn->batches.bytes, memory_order_relaxed) >=
           conn->batches.bytes_max;
}

/* May closed batches hold `bytes` more? */
bool amb_batches_have_room(const struct amb_conn *conn, uint64_t bytes);
/* An open batch is closed, and stays. */
void amb_batch_charge(struct amb_conn *conn, struct amb_batch *batch);
/* It is open again. */
void amb_batch_discharge(struct amb_conn *conn, struct amb_batch *batch);

/* A packed copy of an open batch, which is to be reset if that is sent. NULL: it does not pay. */
struct amb_batch *amb_batch_pack(struct amb_conn *conn, struct amb_batch *batch);
/* Packs a batch of a publisher's queue if that pays; the one that has its place from now on. */
struct amb_batch *amb_batch_pack_queued(struct amb_conn *conn, struct amb_batch *batch);
