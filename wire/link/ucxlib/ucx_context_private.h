/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a context and a registration, for the files that speak to UCX.
 * Threads: any; nothing in here changes after creation.
 */
#pragma once

#include "wire/link/ucxlib/ucx_context.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

struct amb_ucx_context {
    ucp_context_h handle;
    bool takes_cuda;                       /* sends from GPU memory, whatever context is current, */
    uint64_t device_min;                   /* ... from so many bytes on; 0: as the lanes are */
    char net_devices[AMB_UCX_DEVICES_MAX]; /* of its options, */
    uint32_t tx_seg, rx_seg;               /* for the proof (ucx_prove.c) */
};

struct amb_link_mem {
    struct amb_ucx_context *context;
    ucp_mem_h handle;
};
