/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's side of GPU memory: for each device it has met, a stage for copies by way of the
 * host, device buffers for what it receives, and events for releases that wait for a stream.
 *
 *   publish   device ── amb_gpu_read ──► a leased slot, or the open batch ──► as any message
 *   receive   body (mapped or copied) ── amb_gpu_store ──► device buffer ──► amb_msg_data_on
 *
 * Threads: any; locks of its own, all of them leaves. Copies block their caller, and nobody holds
 * the connection's lock over one. Memory: made at the first use of a device, freed with the
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

/* AMB_ENOTSUP and AMB_ENOTFOUND: last_error says which driver or device is missing. */
AMB_MUST_CHECK enum amb_status amb_gpu_get(struct amb_conn *conn, int device, struct amb_gpu **out);
void amb_gpus_init(struct amb_conn *conn);
/* Frees all of a connection; nothing of it is in use. */
void amb_gpus_fini(struct amb_conn *conn);

struct amb_cuda *amb_gpu_cuda(struct amb_gpu *gpu);
int amb_gpu_index(const struct amb_gpu *gpu);
struct amb_gpu_room *amb_gpu_room_of(struct amb_gpu *gpu);
/* Another session: what the last broker refused may be given now. Connection's lock held. */
void amb_gpus_renew(struct amb_conn *conn);
/* Counts bytes that went by way of the host although they lay on a GPU; why: static or the
 * caller's. */
void amb_gpus_count_in(struct amb_conn *conn, uint64_t bytes, const char *why);
/* The sums of a connection, and the last reason. */
void amb_gpus_staged(struct amb_conn *conn, uint64_t *in, uint64_t *out,
                     char why[AMB_GPU_WHY_BYTES]);
/* False once a sticky error was seen. */
bool amb_gpu_is_sound(const struct amb_gpu *gpu);
/* A failed call on a device, as the connection's error. Returns status. */
enum amb_status amb_gpu_fail(struct amb_conn *conn, struct amb_gpu *gpu, enum amb_status status,
                             const char *what);

/* ---- publish ---- */

/*
 * Copies device memory to the host, behind what is on the stream (NULL: the default one); done when
 * it returns. EINVAL, ECUDA, ENOTSUP, ENOMEM: told.
 */
AMB_MUST_CHECK enum amb_status amb_gpu_read(struct amb_conn *conn, void *to, const void *data,
                                            uint64_t len, void *stream);
/* The device whose memory data is; all of len bytes must be. EINVAL, and as amb_gpu_get: told. */
AMB_MUST_CHECK enum amb_status amb_gpu_of(struct amb_conn *conn, const void *data, uint64_t len,
                                          struct amb_gpu **out);

/* What is on a stream so far, of which the end is waited for without blocking. */
struct amb_gpu_fence {
    struct amb_gpu_fence *next; /* its user's */
    struct amb_gpu *gpu;
    void *event;
};

/* *out NULL: it is over already. On failure too: that is waited for. */
AMB_MUST_CHECK enum amb_status amb_gpu_fence(struct amb_gpu *gpu, void *stream,
                                             struct amb_gpu_fence **out);
/* AMB_OK, or ECUDA: it is over, and the fence is given back. EAGAIN: not yet. */
enum amb_status amb_gpu_fence_look(struct amb_gpu_fence *fence);
/* Waits for it, and gives it back. */
enum amb_status amb_gpu_fence_wait(struct amb_gpu_fence *fence);
/* Device memory to device memory of the same GPU, behind what is on the stream; is_waited: it is
 * done when this returns, else as *fence (may be NULL) says. Told. */
AMB_MUST_CHECK enum amb_status amb_gpu_copy(struct amb_gpu *gpu, uint64_t to, uint64_t from,
                                            uint64_t len, void *stream, bool is_waited,
                                            struct amb_gpu_fence **fence);
/* Waits for what is on a stream of the program's. Not on a device of ours. */
AMB_MUST_CHECK enum amb_status amb_gpu_wait(struct amb_conn *conn, void *stream);

/* Has host memory pinned, which GPUs see at *address then; it may be undone when no copy engine has
 * to do with it any more. Blocks. ENOTSUP, ENOMEM, ECUDA. */
AMB_MUST_CHECK enum amb_status amb_gpu_pin(struct amb_gpu *gpu, void *memory, uint64_t size,
                                           uint64_t *address);
void amb_gpu_unpin(struct amb_gpu *gpu, void *memory);

/* ---- receive ---- */

struct amb_gpu_buffer {
    struct amb_gpu_buffer *next;
    uint64_t address;
    unsigned class;
    enum amb_mem mem;
};

/* A buffer of at least len bytes, aligned to 256, of a kind: CUDA, CUDA_MANAGED, PINNED. NULL:
 * there is none now. */
struct amb_gpu_buffer *amb_gpu_buffer_get(struct amb_gpu *gpu, enum amb_mem mem, uint64_t len);
void amb_gpu_buffer_put(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer);
/* Host to device, whole when it returns. */
AMB_MUST_CHECK enum amb_status amb_gpu_store(struct amb_gpu *gpu, uint64_t to, const void *from,
                                             uint64_t len);

/* From memory of another GPU, or of this one, to this one's or to managed memory, whole when it
 * returns. */
AMB_MUST_CHECK enum amb_status amb_gpu_fetch(struct amb_gpu *gpu, uint64_t to,
                                             struct amb_gpu *source, uint64_t from, uint64_t len);

/* The release of a message; any thread, no lock of this file held. */
typedef void (*amb_gpu_release_fn)(struct amb_msg *msg);

/*
 * Has msg released when what is on the stream so far has run: looked at by amb_gpus_look. On
 * failure it is not taken.
 */
AMB_MUST_CHECK enum amb_status amb_gpu_release_after(struct amb_gpu *gpu, struct amb_msg *msg,
                                                     amb_gpu_release_fn release, void *stream);
/* Releases what is due; returns whether something is left. Any lock may be held. */
bool amb_gpus_look(struct amb_conn *conn);
/* Waits for all of it. No lock held. */
void amb_gpus_settle(struct amb_conn *conn);
