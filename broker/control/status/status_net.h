/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of broker-ctl about UCX and network devices: the broker's own row of `transports`, and
 * `topo`.
 * Threads: the control thread. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct amb_client;
struct amb_control;

/* The first row of `transports`, with the keys of the others. It has the broker's UCX, the lanes
 * that are possible on its devices, and the lacks of that UCX. NULL: there are no ucx links. */
json_t *amb_status_net_broker(const struct amb_control *control);
/* "ucx": the release that the client has told; "" if none. */
void amb_status_net_client(const struct amb_client *client, json_t *row);
/*
 * Rows {device, pci, numa, gpu, gpu_pci, distance, lanes, used}: each network device with each GPU
 * of the broker's, or with none. root: "", or in tests a folder that has sys. gpus: PCI addresses.
 */
json_t *amb_status_net_rows(const struct amb_control *control, const char *root,
                            const char *const *gpus, size_t gpu_count);
/* The same of this machine, and of the GPUs that the broker has memory on. */
json_t *amb_status_topo(const struct amb_control *control);
