/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that an option states and a command keeps.
 * Threads: any. Memory: constants.
 */
#pragma once

#include <stdint.h>

#define AMB_LOCAL_RANKS_MAX 256u       /* broker-ctl local: processes */
#define AMB_LOCAL_OPTIONS_MAX 48u      /* broker-ctl local: --broker-option */
#define AMB_PUB_PROPS_MAX 15u          /* broker-ctl pub: --prop */
#define AMB_PUB_SIZE_MAX UINT32_MAX    /* no broker takes a larger message */
#define AMB_CTL_TRACE_BATCHES_MAX 100u /* broker-ctl trace: --count */
#define AMB_CTL_TRACE_MS_MAX 3600000   /* ... --timeout */
#define AMB_CTL_DRAIN_S_MAX 86400      /* broker-ctl drain: --timeout */
#define AMB_TLS_DAYS_MAX 36500u        /* broker-ctl tls: --days */

#define AMB_BENCH_SUBS_MAX 64u
#define AMB_BENCH_PUBS_MAX 16u
#define AMB_BENCH_BROKER_OPTIONS_MAX 32u
#define AMB_BENCH_ITERATIONS_MAX UINT64_C(1000000) /* sendrecv, shuffle */
#define AMB_BENCH_GPU_SIZE_MIN 4u                  /* on a GPU; host: AMB_PAYLOAD_MIN */
#define AMB_BENCH_SIZE_MAX (UINT64_C(1) << 40)
#define AMB_BENCH_DEVICE_MAX 63u
#define AMB_PARTITION_WORKERS_MAX 16u
#define AMB_BENCH_COUNT_MAX ((UINT64_C(1) << 48) - 1) /* the bits of a message's number */
