/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far network devices are from GPUs, by the tree of PCI devices and the NUMA nodes in sysfs.
 * Distances have the names that `nvidia-smi topo` gives them. Nothing but sysfs is asked.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_CLOSEST_PCI_MAX 20u /* bytes of "0000:3b:00.0", with its NUL */

/* From near to far. */
enum amb_distance {
    AMB_DISTANCE_PIX,  /* below one PCIe bridge or switch */
    AMB_DISTANCE_PXB,  /* below several, of one host bridge */
    AMB_DISTANCE_PHB,  /* by the host bridge, which is in the processor */
    AMB_DISTANCE_NODE, /* by the bridges of one NUMA node */
    AMB_DISTANCE_SYS,  /* by the link between processors */
    AMB_DISTANCE_NONE, /* not known: a device without a place, as lo */
};

struct amb_pci_place {
    char path[512];                /* below sys/devices, from the host bridge on; "": none */
    char pci[AMB_CLOSEST_PCI_MAX]; /* "": none */
    int node;                      /* NUMA; -1: not known */
};

const char *amb_distance_name(enum amb_distance distance);
/* The place of a network device, as UCX names it ("eth0", "mlx5_0:1"). root: "", or in tests a
 * folder that has sys. False: it has none. */
bool amb_pci_place_of_device(const char *root, const char *device, struct amb_pci_place *out);
/* The same of a PCI address, in any case of its letters. */
bool amb_pci_place_of(const char *root, const char *pci, struct amb_pci_place *out);
enum amb_distance amb_distance_between(const struct amb_pci_place *a,
                                       const struct amb_pci_place *b);
/*
 * Of the devices ("ib0,mlx5_0:1"), those that are nearest to one of the GPUs; in their order.
 * False: there is no GPU with a place, or no device with one.
 */
bool amb_closest_devices(const char *root, const char *devices, const char *const *gpus,
                         size_t gpu_count, char *out, size_t size);
