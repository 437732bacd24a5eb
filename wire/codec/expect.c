/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/expect.h"

#include <string.h>

static const char *const names[] = {"ring", "zero-copy", "rdma", "nvlink"};
#define NAMES (sizeof(names) / sizeof(names[0]))

_Static_assert((1u << NAMES) - 1 == AMB_EXPECT_ALL, "a name for each");

uint32_t amb_expect_find(const char *name, size_t len)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (len == strlen(names[i]) && memcmp(name, names[i], len) == 0) {
            return 1u << i;
        }
    }
    return 0;
}

const char *amb_expect_name(uint32_t expect)
{
    for (size_t i = 0; i < NAMES; i++) {
        if ((expect & 1u << i) != 0) {
            return names[i];
        }
    }
    return "";
}

/* Does a lane's name begin so? Names stand behind a space, or first. */
static bool has_lane(const char *lanes, const char *const *starts, size_t count)
{
    for (const char *at = lanes; at != NULL && *at != '\0';) {
        for (size_t i = 0; i < count; i++) {
            if (strncmp(at, starts[i], strlen(starts[i])) == 0) {
                return true;
            }
        }
        at = strchr(at, ' ');
        at += at != NULL;
    }
    return false;
}

bool amb_expect_is_rdma(const char *lanes)
{
    /* rc_verbs, rc_mlx5, rc_x, dc_mlx5, ud_verbs, ud_mlx5 */
    static const char *const starts[] = {"rc", "dc", "ud"};
    return has_lane(lanes, starts, sizeof(starts) / sizeof(starts[0]));
}

bool amb_expect_is_nvlink(const char *lanes)
{
    static const char *const starts[] = {"cuda_ipc"};
    return has_lane(lanes, starts, sizeof(starts) / sizeof(starts[0]));
}
