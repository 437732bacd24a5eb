/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine's interfaces for tests, always the same:
 *
 *   lo      127.0.0.1/8, ::1/128
 *   eth0    192.0.2.2/24, 198.51.100.2/24, 2001:db8::2/64, fe80::2/64
 *   eth0.5  10.5.0.2/16
 *   ib0     fe80::9/64
 *   ib1     no address
 *   wlan0   down
 */
#pragma once

#include "wire/base/interface.h"

#include <sys/socket.h>

#define TRY_INTERFACE(n, i, up)                                                                    \
    {                                                                                              \
        .name = n, .index = (i), .is_up = (up)                                                     \
    }
#define TRY_V4(n, i, bits, a, b, c, d)                                                             \
    {                                                                                              \
        .name = n, .index = (i), .family = AF_INET, .prefix = (bits), .is_up = true, .bytes = {    \
            (a),                                                                                   \
            (b),                                                                                   \
            (c),                                                                                   \
            (d)                                                                                    \
        }                                                                                          \
    }
/* Four bytes, zeros, and the last one. */
#define TRY_V6(n, i, bits, a, b, c, d, last)                                                       \
    {                                                                                              \
        .name = n, .index = (i), .family = AF_INET6, .prefix = (bits), .is_up = true, .bytes = {   \
            (a),                                                                                   \
            (b),                                                                                   \
            (c),                                                                                   \
            (d),                                                                                   \
            [15] = (last)                                                                          \
        }                                                                                          \
    }

static struct amb_interface try_rows[] = {
    TRY_INTERFACE("lo", 1, true),
    TRY_INTERFACE("eth0", 2, true),
    TRY_INTERFACE("eth0.5", 3, true),
    TRY_INTERFACE("ib0", 4, true),
    TRY_INTERFACE("ib1", 5, true),
    TRY_INTERFACE("wlan0", 6, false),
    TRY_V4("lo", 1, 8, 127, 0, 0, 1),
    TRY_V6("lo", 1, 128, 0, 0, 0, 0, 1),
    TRY_V4("eth0", 2, 24, 192, 0, 2, 2),
    TRY_V4("eth0", 2, 24, 198, 51, 100, 2),
    TRY_V6("eth0", 2, 64, 0x20, 0x01, 0x0d, 0xb8, 2),
    TRY_V6("eth0", 2, 64, 0xfe, 0x80, 0, 0, 2),
    TRY_V4("eth0.5", 3, 16, 10, 5, 0, 2),
    TRY_V6("ib0", 4, 64, 0xfe, 0x80, 0, 0, 9),
};

static const struct amb_interfaces try_interfaces = {
    .rows = try_rows, .count = sizeof(try_rows) / sizeof(try_rows[0])};

#define TRY_LIST "eth0, eth0.5, ib0, ib1 (no address), wlan0 (down)"
