/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the broker's counters lie: server.counters_file, beside the first Unix socket, or private
 * memory. From here on shards and the control thread count there.
 *
 * Threads: where the broker starts and stops. Memory: counters.h.
 */
#pragma once

#include "broker/count/counters.h"
#include "wire/base/status.h"

struct amb_config;
struct amb_control;

/* After the listeners are open, and before a worker runs. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_counting_start(struct amb_counters *counters,
                                                  const struct amb_config *config,
                                                  struct amb_control *control);
/* Behind all threads that count. Harmless on a zeroed one. */
void amb_counting_stop(struct amb_counters *counters);
