/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_release.h"

#include <stdio.h>
#include <ucp/api/ucp_version.h>

/*
 * Where UCX's wire protocols changed: releases on different sides of one do not talk. Measured:
 *
 *   1.22 with 1.13           crashes or hangs over shared memory, refuses TCP over loopback
 *   1.22 with 1.18 to 1.21   refuses TCP over loopback
 *   1.21 with 1.19           works
 */
static const uint32_t wire_borders[] = {AMB_UCX_RELEASE(1, 16, 0), AMB_UCX_RELEASE(1, 22, 0)};

const char *amb_ucx_release_text(uint32_t release, char *out, size_t size)
{
    if (release == 0) {
        (void)snprintf(out, size, "an unknown release");
    } else {
        (void)snprintf(out, size, "%u.%u.%u", release >> 16, (release >> 8) & 0xffu,
                       release & 0xffu);
    }
    return out;
}

uint32_t amb_ucx_release_built(void)
{
    return AMB_UCX_RELEASE(UCP_API_MAJOR, UCP_API_MINOR, 0);
}

void amb_ucx_release_interface(uint32_t release, unsigned *major, unsigned *minor)
{
    uint32_t known = release < amb_ucx_release_built() ? release : amb_ucx_release_built();
    *major = known >> 16;
    *minor = (known >> 8) & 0xffu;
}

bool amb_ucx_releases_fit(uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < sizeof(wire_borders) / sizeof(wire_borders[0]); i++) {
        if ((a < wire_borders[i]) != (b < wire_borders[i])) {
            return false;
        }
    }
    return a != 0 && b != 0;
}

bool amb_ucx_compatible(uint32_t release_a, uint32_t tx_a, uint32_t rx_a, uint32_t release_b,
                        uint32_t tx_b, uint32_t rx_b, const char **why)
{
    if (release_a == 0 || release_b == 0) {
        *why = "one side has no UCX";
        return false;
    }
    if (!amb_ucx_releases_fit(release_a, release_b)) {
        *why = "the two UCX releases do not understand each other";
        return false;
    }
    if (tx_a != tx_b || rx_a != rx_b) {
        *why = "the TCP segment sizes of the two UCX configurations differ";
        return false;
    }
    return true;
}

bool amb_ucx_release_wants_prefix(uint32_t release)
{
    return release >= AMB_UCX_RELEASE(1, 17, 0);
}

bool amb_ucx_release_has_protocols(uint32_t release)
{
    return release >= AMB_UCX_RELEASE(1, 16, 0);
}

bool amb_ucx_release_unmaps(uint32_t release)
{
    return release == AMB_UCX_RELEASE(1, 22, 0);
}

bool amb_ucx_release_bounds_ipc(uint32_t release)
{
    return release >= AMB_UCX_RELEASE(1, 21, 0);
}

bool amb_ucx_release_frees_threads(uint32_t release)
{
    return release >= AMB_UCX_RELEASE(1, 19, 0);
}

bool amb_ucx_release_tells_lanes(uint32_t release)
{
    return release >= AMB_UCX_RELEASE(1, 14, 0);
}
