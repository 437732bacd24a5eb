/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `trace`: the stages of the next batches to topics, as the broker has noted them.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* AMB_EXIT_TIMEOUT: fewer batches than asked for have come. */
enum amb_exit amb_ctl_trace(struct amb_ctl *ctl);
