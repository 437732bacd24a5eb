/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of this machine, as its driver lists them and CUDA_VISIBLE_DEVICES allows. A child asks
 * the driver and ends. So the process that starts others has neither the driver's threads nor its
 * memory, and a driver that hangs can be left behind.
 *
 * Of parts of GPUs (MIG) the driver shows a process one. So each part that CUDA_VISIBLE_DEVICES
 * names is asked for by a child of its own.
 * Threads: one. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AMB_LOCAL_GPUS_MAX 64u
#define AMB_LOCAL_UUID_MAX 64u /* also of a name as "MIG-GPU-UUID/13/0" */

struct amb_local_gpu {
    char uuid[AMB_LOCAL_UUID_MAX]; /* "GPU-..." or "MIG-..." */
    char pci[20];
};

struct amb_local_gpus {
    uint32_t count;
    char why_not[320]; /* if there are none */
    struct amb_local_gpu items[AMB_LOCAL_GPUS_MAX];
};

/* Starts a child that asks. visible: in place of CUDA_VISIBLE_DEVICES; NULL: as it is. *fd then has
 * one struct amb_local_gpus, to be read and closed by the caller; less: the driver has ended the
 * child. -1: errno has the reason. Does not wait. */
pid_t amb_local_gpus_ask(const char *visible, int *fd);
/* The `index`th of several parts of GPUs in a list of CUDA_VISIBLE_DEVICES. False: there is none,
 * or the list has something else, or it is NULL. */
bool amb_local_gpus_part(const char *visible, unsigned index, char out[AMB_LOCAL_UUID_MAX]);
/* The list for a process whose GPU is `first`: all of them, in a ring from there on. */
void amb_local_gpus_ring(const struct amb_local_gpus *gpus, unsigned first, unsigned count,
                         char *out, size_t size);
