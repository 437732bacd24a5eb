/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes that UCX could have on network devices, before any peer is there: by sysfs, and by the
 * modules of a UCX. For a peer UCX chooses among them, and says so then.
 * Threads: any. Memory: the caller's. root: "", or in tests a folder that has sys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Is one of these devices ("eth0,mlx5_0:1") an RDMA device? */
bool amb_ucx_has_rdma(const char *root, const char *net_devices);
/*
 * Writes "tcp/eth0 rc/mlx5_0:1 ud/mlx5_0:1"; lanes that do not fit are left out. tls: the lanes
 * that are allowed, as "tcp,self,rc,ud". has_ib: this UCX has its module for InfiniBand and RoCE.
 */
void amb_ucx_lanes_possible(const char *root, const char *net_devices, const char *tls, bool has_ib,
                            char *out, size_t size);
