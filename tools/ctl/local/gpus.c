/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/gpus.h"

#include "tools/common/child.h"
#include "wire/mem/cuda.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define PARTS_MAX AMB_LOCAL_GPUS_MAX
_Static_assert(AMB_LOCAL_GPUS_MAX == AMB_CUDA_DEVICES_MAX, "as many as the driver's");

static void list(struct amb_local_gpus *out)
{
    uint32_t count = amb_cuda_count();
    (void)snprintf(out->why_not, sizeof(out->why_not), "%s", amb_cuda_why_not());
    for (uint32_t i = 0; i < count && out->count < AMB_LOCAL_GPUS_MAX; i++) {
        char index[12];
        (void)snprintf(index, sizeof(index), "%u", (unsigned)i);
        const struct amb_cuda *device = amb_cuda_seen(index);
        if (device != NULL) {
            const struct amb_cuda_info *info = amb_cuda_info(device);
            struct amb_local_gpu *gpu = &out->items[out->count++];
            (void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", info->uuid);
            (void)snprintf(gpu->pci, sizeof(gpu->pci), "%s", info->pci);
        }
    }
}

pid_t amb_local_gpus_ask(const char *visible, int *fd)
{
    static struct amb_local_gpus found;
    pid_t pid = amb_child_fork(SIGKILL, fd);
    if (pid == 0) {
        if (visible != NULL && setenv(VISIBLE, visible, 1) != 0) {
            _exit(1);
        }
        list(&found);
        /* Less than a pipe holds, so this does not wait. */
        _exit(write(*fd, &found, sizeof(found)) == (ssize_t)sizeof(found) ? 0 : 1);
    }
    return pid;
}

bool amb_local_gpus_part(const char *visible, unsigned index, char out[AMB_LOCAL_UUID_MAX])
{
    unsigned count = 0;
    bool is_found = false;
    for (const char *at = visible; at != NULL && *at != '\0'; count++) {
        size_t len = strcspn(at, ",");
        if (strncmp(at, "MIG-", 4) != 0 || len >= AMB_LOCAL_UUID_MAX || count == PARTS_MAX) {
            return false;
        }
        if (count == index) {
            (void)snprintf(out, AMB_LOCAL_UUID_MAX, "%.*s", (int)len, at);
            is_found = true;
        }
        at += len + (at[len] == ',' ? 1 : 0);
    }
    return is_found && count > 1;
}

void amb_local_gpus_ring(const struct amb_local_gpus *gpus, unsigned first, unsigned count,
                         char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < count && len < size; i++) {
        const char *uuid = gpus->items[(first + i) % gpus->count].uuid;
        int n = snprintf(out + len, size - len, "%s%s", i > 0 ? "," : "", uuid);
        len += n > 0 ? (size_t)n : 0;
    }
}
