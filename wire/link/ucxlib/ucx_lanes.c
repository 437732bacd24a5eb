/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_lanes.h"

#include "wire/base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A device of a list: len bytes, as "mlx5_0:1". */
static bool is_rdma(const char *root, const char *device, size_t len)
{
    char path[PATH_MAX];
    const char *colon = memchr(device, ':', len);
    size_t name = colon == NULL ? len : (size_t)(colon - device);
    int written =
        snprintf(path, sizeof(path), "%s/sys/class/infiniband/%.*s", root, (int)name, device);
    bool is_name = name > 0 && memchr(device, '/', name) == NULL && device[0] != '.';
    return is_name && written > 0 && (size_t)written < sizeof(path) && access(path, F_OK) == 0;
}

bool amb_ucx_has_rdma(const char *root, const char *net_devices)
{
    for (const char *at = net_devices; *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (is_rdma(root, at, len)) {
            return true;
        }
        at += len + (at[len] == ',');
    }
    return false;
}

void amb_ucx_lanes_possible(const char *root, const char *net_devices, const char *tls, bool has_ib,
                            char *out, size_t size)
{
    static const struct {
        const char *lane, *driver; /* of devices whose names begin so */
        bool is_rdma;
    } lanes[] = {{"tcp", "", false}, {"rc", "", true}, {"dc", "mlx5", true}, {"ud", "", true}};
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = net_devices; *at != '\0';) {
        size_t len = strcspn(at, ",");
        bool has_rdma = is_rdma(root, at, len);
        for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
            if (lanes[i].is_rdma != has_rdma || (has_rdma && !has_ib) ||
                strncmp(at, lanes[i].driver, strlen(lanes[i].driver)) != 0 ||
                !amb_text_list_has(tls, lanes[i].lane)) {
                continue;
            }
            int written = snprintf(out + used, size - used, "%s%s/%.*s", used == 0 ? "" : " ",
                                   lanes[i].lane, (int)len, at);
            if (written < 0 || (size_t)written >= size - used) {
                out[used] = '\0';
                return;
            }
            used += (size_t)written;
        }
        at += len + (at[len] == ',');
    }
}
