/* SPDX-License-Identifier: Apache-2.0 */
/* A context of UCX on the loopback interface, for both ends in one process. */
#pragma once

#include "wire/link/ucxlib/ucx_context.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline struct amb_ucx_context *ucx_open_context(void)
{
    struct amb_ucx_options options = {.net_devices = "lo"};
    struct amb_ucx_context *context = NULL;
    char error[256] = "";
    amb_ucx_segment_sizes(&options.tx_seg, &options.rx_seg);
    if (amb_ucx_context_create(&options, error, sizeof(error), &context) != AMB_OK) {
        fail_msg("%s", error);
    }
    return context;
}
