/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of `transports` that both roles have. And the meaning of their switches on this machine:
 * the devices that the ucx link may use, and the lanes. So nobody has to name a UCX variable. The
 * names of UCX's settings, and the differences between its releases, are
 * wire/link/ucxlib/ucx_settings.c's business.
 *
 * A device is used only if it belongs to a trusted interface. For TCP that is the interface itself,
 * for InfiniBand and RoCE the RDMA device behind it ("mlx5_0:1").
 * Threads: one at a time. Memory: the struct must not move once made, and points into the
 * configuration, which must live as long.
 */
#pragma once

#include "wire/config/config_types.h"
#include "wire/link/ucxlib/ucx_settings.h"

#define AMB_TRANSPORTS_TEXT_MAX 512u
#define AMB_TRANSPORTS_SETTINGS_MAX 66u /* the user's 64 and ours */

#define AMB_NET_DEVICES_CLOSEST "closest"

struct amb_config_faults;
struct amb_config_store;

/* A role may leave out what it has no key for: 0 is "auto", none, or no limit. */
struct amb_config_transports {
    struct amb_config_strings trusted; /* interfaces, each existed at start; empty: no ucx link */
    enum amb_switch tcp; /* the ucx link over TCP. AUTO: where the URL insists; ON: preferred */
    enum amb_switch nvlink, infiniband, cuda_copy, rdmacm;
    const char *library; /* of UCX: "auto", "wheel", "system", a path */
    /* Empty: auto, all trusted ones. AMB_NET_DEVICES_CLOSEST alone: those near to the GPUs. */
    struct amb_config_strings net_devices;
    uint32_t rails;         /* 0: auto */
    const char *port_range; /* "" or "5000-5100" */
    uint64_t ring_size;     /* bytes of each direction, a power of two */
    struct amb_config_pairs ucx;
};

struct amb_transports {
    bool has_ucx;  /* options may be given to amb_ucx_context_create */
    bool has_rdma; /* an RDMA device is among the devices */
    /* Also where a URL does not ask for it: RDMA, for which UCX has its module, or prefers_tcp. */
    bool prefer_ucx;
    bool prefers_tcp;           /* transports.tcp = "on" */
    bool needs_rdma;            /* transports.infiniband = "on" */
    bool wants_closest;         /* net_devices is to be narrowed once the GPUs are known */
    const char *why_not;        /* without has_ucx: the sentence for clients that ask for it */
    enum amb_status ucx_status; /* of loading UCX, or of looking for it; not OK: ucx_why */
    char ucx_why[256], ucx_obstacle[272];
    struct amb_ucx_options options;
    char net_devices[AMB_TRANSPORTS_TEXT_MAX];
    char tls[AMB_TRANSPORTS_TEXT_MAX];
    char rails[4];
    struct amb_ucx_setting settings[AMB_TRANSPORTS_SETTINGS_MAX];
};

/*
 * Devices, lanes and options; loads no UCX. EINVAL: an interface does not exist, or something is
 * "on" that cannot work here. error (may be NULL) then holds "file:line: key: reason (got X,
 * allowed Y)", by the origins in store. root: "" or, in tests, a folder that has sys/class/net,
 * sys/class/infiniband and proc/driver/nvidia.
 */
AMB_MUST_CHECK enum amb_status amb_transports_choose(struct amb_transports *transports,
                                                     const struct amb_config_transports *config,
                                                     const struct amb_config_store *store,
                                                     const char *root, char *error,
                                                     size_t error_size);
/* The same, and the answers that need UCX: has_ucx, prefer_ucx, why_not. Loads it where an
 * interface is trusted. EINVAL also: the UCX that is asked for cannot be had, or does not do what
 * is "on". faults: gets the parts of that fault; or NULL. */
AMB_MUST_CHECK enum amb_status amb_transports_init(struct amb_transports *transports,
                                                   const struct amb_config_transports *config,
                                                   const struct amb_config_store *store,
                                                   const char *root, char *error, size_t error_size,
                                                   struct amb_config_faults *faults);
/*
 * With net_devices = "closest": leaves the devices that are nearest to these GPUs, by PCI address
 * ("0000:3b:00.0"). Where there is no GPU, or nothing is known of the devices' places, all stay. So
 * they do where infiniband is "on" and none of the nearest is an RDMA device, or where this UCX has
 * no lane on those.
 */
void amb_transports_narrow(struct amb_transports *transports, const char *root,
                           const char *const *gpus, size_t gpu_count);
