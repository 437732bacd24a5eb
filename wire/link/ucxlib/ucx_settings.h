/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that UCX is told: the options of a context, and those that both ends of a connection
 * must agree on.
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    bool wants_cuda_ipc;  /* the user insists on it, with any release */
};

#define AMB_UCX_TLS_MAX 256u /* bytes of a list of lanes */

/*
 * The lanes that UCX of that release is told to use. The result says why one of them was left out
 * (static); NULL: none was.
 */
const char *amb_ucx_lanes(const struct amb_ucx_options *options, uint32_t release,
                          char out[AMB_UCX_TLS_MAX]);

/* Bytes from which payloads in GPU memory are given to UCX as they lie, whatever its lanes are:
 * to try it out. */
#define AMB_UCX_GPU_MIN_ENV "AMB_UCX_GPU_MIN"

/*
 * Does a lane of these, as a link describes them ("tcp/lo cuda_ipc/cuda"), read and write a GPU's
 * memory where it lies? Over TCP UCX copies it in fragments, by the driver, on its worker's thread.
 */
bool amb_ucx_lanes_reach_gpus(const char *lanes);

/* The values HELLO carries and both sides must agree on. */
void amb_ucx_segment_sizes(uint32_t *tx_seg, uint32_t *rx_seg);
