/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of a connection: each GPU that it has met, with a stage for copies by way of the
 * host. Its buffers, its fences and the releases behind a stream have files of their own.
 *
 *   publish   device ── amb_gpu_read ──► a leased slot, or the open batch ──► as any message
 *   receive   body (mapped or copied) ── amb_gpu_store ──► device buffer ──► amb_msg_data_on
 *
 * Threads: any. Copies block their caller, and no caller holds the connection's lock meanwhile.
 * Locks, outermost first: the connection's, the one in conn->gpu, the pools' of import.c or a
 * device's, those of wire/mem. Memory: made at the first use of a device, freed after the
 * connection's memory.
 */
#pragma once

#include "client/conn/gpu_range.h"
#include "wire/mem/cuda.h"

#include <amb/amb.h>

struct amb_conn;
struct amb_gpu; /* a device, as a connection uses it */

/* How it stands with leases on a device; under the connection's lock. */
struct amb_gpu_room {
    uint64_t bytes;          /* of its segments, those being opened too */
    int64_t refused_ns;      /* when the broker refused one; 0: never */
    enum amb_status refused; /* why */
    bool is_hopeless;        /* it would refuse the next one too: no pool, no trust, no way */
    char text[128];
};

/* The first time this brings up the device, which may take seconds: no lock is held. AMB_ENOTSUP
 * and AMB_ENOTFOUND: last_error says which driver or device is missing. */
AMB_MUST_CHECK enum amb_status amb_gpu_get(struct amb_conn *conn, int device, struct amb_gpu **out);
/* The one that is there; NULL: none. The lock in conn->gpu is held. */
struct amb_gpu *amb_gpu_known(struct amb_conn *conn, const struct amb_cuda *cuda);
void amb_conn_gpus_init(struct amb_conn *conn);
/* The calling thread is the library's: its calls of a driver are fewer. */
void amb_gpus_own_thread(void);
/* Has all of a connection freed (later.h); nothing of it is in use. */
void amb_conn_gpus_fini(struct amb_conn *conn);

struct amb_cuda *amb_gpu_cuda(struct amb_gpu *gpu);
int amb_gpu_index(const struct amb_gpu *gpu);
struct amb_gpu_room *amb_gpu_room_of(struct amb_gpu *gpu);
/* Another session: what the last broker refused may be given now. Connection's lock held. */
void amb_conn_gpus_renew(struct amb_conn *conn);
/* Counts bytes that went by way of the host although they lay on a GPU; why: static or the
 * caller's. */
void amb_conn_gpus_count_in(struct amb_conn *conn, uint64_t bytes, const char *why);
/* Bytes and messages that went by way of the host, published and received, and the last reason of
 * the former. */
struct amb_gpus_staged {
    uint64_t in, in_msgs, out, out_msgs;
    char why[AMB_GPU_WHY_BYTES];
};
/* The sums of a connection. */
void amb_conn_gpus_staged(struct amb_conn *conn, struct amb_gpus_staged *out);
/* False once a sticky error was seen. */
bool amb_gpu_is_sound(const struct amb_gpu *gpu);
/* A failed call on a device, as the connection's error. ESTATE: its stream captures a graph.
 * Returns status. */
enum amb_status amb_gpu_fail(struct amb_conn *conn, struct amb_gpu *gpu, enum amb_status status,
                             const char *what);

/* ---- copies, pinned memory ---- */

/*
 * Copies device memory to the host, behind what is on the stream (NULL: the default one); done when
 * it returns. EINVAL, ECUDA, ENOTSUP, ENOMEM: the connection's last error.
 */
AMB_MUST_CHECK enum amb_status amb_gpu_read(struct amb_gpu *gpu, void *to, const void *data,
                                            uint64_t len, void *stream);
/* The same of a payload that was received, behind nothing: it was whole before. */
AMB_MUST_CHECK enum amb_status amb_gpu_read_whole(struct amb_conn *conn, void *to, const void *data,
                                                  uint64_t len);
/* The device whose memory data is; all of len bytes must be. EINVAL, and as amb_gpu_get: the
 * connection's last error. */
AMB_MUST_CHECK enum amb_status amb_gpu_of(struct amb_conn *conn, const void *data, uint64_t len,
                                          struct amb_gpu **out);
/* The same of memory whose place is known (amb_cuda_locate). */
AMB_MUST_CHECK enum amb_status amb_gpu_at(struct amb_conn *conn, const struct amb_mem_place *place,
                                          const void *data, uint64_t len, struct amb_gpu **out);

/* Blocks until the work on a stream of the program has run; for payloads in host memory. ESTATE,
 * ECUDA, ENOTSUP: the connection's last error. */
AMB_MUST_CHECK enum amb_status amb_gpu_wait(struct amb_conn *conn, void *stream);

/* Has host memory pinned, which GPUs see at *address then; it may be undone when no copy engine has
 * to do with it any more. Blocks. ENOTSUP, ENOMEM, ECUDA. */
AMB_MUST_CHECK enum amb_status amb_gpu_pin(struct amb_gpu *gpu, void *memory, uint64_t size,
                                           uint64_t *address);
void amb_gpu_unpin(struct amb_gpu *gpu, void *memory);

/* Host to device, whole when it returns. */
AMB_MUST_CHECK enum amb_status amb_gpu_store(struct amb_gpu *gpu, uint64_t to, const void *from,
                                             uint64_t len);

/* From memory of another GPU, or of this one, to this one's or to managed memory, whole when it
 * returns. */
AMB_MUST_CHECK enum amb_status amb_gpu_fetch(struct amb_gpu *gpu, uint64_t to,
                                             struct amb_gpu *source, uint64_t from, uint64_t len);
