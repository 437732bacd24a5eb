/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ucx link: active messages between one client's UCX worker and one broker worker.
 * A UCX port gives whoever reaches it the whole process, so contexts are made only for interfaces
 * that the owner declared trusted, endpoints only after authentication, and shared-memory lanes
 * never (UCX types stay inside these two rooms: ucx and ucxlib).
 *
 *   amb_ucx_context (process) ─► amb_ucx_worker (thread) ─► link (session)
 *
 * Threads: context: any, after creation; worker and its links: the thread that made the worker
 * (broker), or one at a time (client: `serialized`).
 */
#pragma once

#include "wire/link/link.h"

struct amb_ucx_context;
struct amb_ucx_worker;

/*
 * All of this process is ours (brokerd): every line that UCX logs goes to amb_log, from whichever
 * thread. Else only those of our own calls do, and a program's own UCX logs as before (ucx_log.c).
 * Before any other call.
 */
void amb_ucx_own_process(void);

/* Loads UCX where that has not happened. 0 if there is none. major << 16 | minor << 8 | patch, of
 * the library loaded now. */
uint32_t amb_ucx_release(void);

/* Where the UCX of this process has its modules; false: no UCX is loaded. */
bool amb_ucx_modules(char *out, size_t size);

/* One setting of UCX for amb_ucx_context_create, without the UCX_ prefix. */
struct amb_ucx_setting {
    const char *name, *value;
};

struct amb_ucx_options {
    const char *net_devices; /* "lo", "mlx5_0:1,ib0": never empty, these are the trusted ones */
    const char *tls; /* lanes, comma list of what is allowed; NULL: tcp,self and RDMA and CUDA lanes
                        there are */
    const char *port_range;  /* "5000-5100" or NULL */
    uint32_t tx_seg, rx_seg; /* bytes, forced on both sides */
    const struct amb_ucx_setting
        *settings; /* the user's own, after ours; may not name a forced one */
    size_t setting_count;
    bool use_environment; /* brokerd and tools: transport keys by setenv, before any thread */
};

/* The values HELLO carries and both sides must agree on. */
void amb_ucx_segment_sizes(uint32_t *tx_seg, uint32_t *rx_seg);
/*
 * May these two releases and segment sizes talk over TCP? False: *why (static) says what differs.
 * The one table of what is known about pairs of releases.
 */
bool amb_ucx_compatible(uint32_t release_a, uint32_t tx_a, uint32_t rx_a, uint32_t release_b,
                        uint32_t tx_b, uint32_t rx_b, const char **why);

/* ENOTSUP, EUCX, EINVAL; error (may be NULL) then holds a sentence. */
AMB_MUST_CHECK enum amb_status amb_ucx_context_create(const struct amb_ucx_options *options,
                                                      char *error, size_t error_size,
                                                      struct amb_ucx_context **out);
void amb_ucx_context_destroy(struct amb_ucx_context **context);
/*
 * Proves, with throw-away workers on the same devices, that the segment sizes asked for are really
 * used: a receiver whose size is smaller than its sender's overruns its buffer. Once a process,
 * some 20 ms; amb_ucx_worker_create asks for it. Ports are open meanwhile; a context by itself has
 * none. EUCX with a sentence.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_context_prove(const struct amb_ucx_context *context,
                                                     char *error, size_t error_size);

/* Registers host memory for links of this context. The result is for amb_link_tx.mem and on_frame.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_register(struct amb_ucx_context *context, void *address,
                                                size_t length, struct amb_link_mem **out);
void amb_ucx_unregister(struct amb_link_mem **mem);

/* Opens a port. ENOMEM, EUCX. */
AMB_MUST_CHECK enum amb_status amb_ucx_worker_create(struct amb_ucx_context *context,
                                                     bool serialized, struct amb_ucx_worker **out);
/* amb_link_close was called on all links before; on_closed may still come, in here. */
void amb_ucx_worker_destroy(struct amb_ucx_worker **worker);
/* This worker's address, valid as long as it lives. */
const void *amb_ucx_worker_address(const struct amb_ucx_worker *worker, size_t *len);
/*
 * Runs callbacks of all links; returns how much was done. amb_link_poll and amb_link_arm of a ucx
 * link do nothing: this and amb_ucx_worker_arm do it for all links of a worker in one go. While a
 * link is closing, call it every 100 ms at least.
 */
unsigned amb_ucx_worker_progress(struct amb_ucx_worker *worker);
int amb_ucx_worker_fd(const struct amb_ucx_worker *worker);
/* False: there is work, do not sleep. */
AMB_MUST_CHECK bool amb_ucx_worker_arm(struct amb_ucx_worker *worker);
/* How long to sleep then at most: UCX's descriptor is a hint that has been seen to come late. */
int64_t amb_ucx_worker_sleep_max_ns(const struct amb_ucx_worker *worker);

/*
 * One end. address: the peer's worker, from an authenticated control connection. session,
 * generation, secret: what every frame of this session carries, in both directions; frames whose
 * triple matches no link of this worker are dropped and counted.
 */
AMB_MUST_CHECK enum amb_status
amb_ucx_link_create(struct amb_ucx_worker *worker, const void *address, size_t address_len,
                    uint32_t session, uint32_t generation, uint64_t secret,
                    const struct amb_link_events *events, void *arg, struct amb_link **out);
/* Frames dropped because they named no link of this worker. */
uint64_t amb_ucx_worker_foreign(const struct amb_ucx_worker *worker);
