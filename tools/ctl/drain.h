/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `drain` and `stop`: the end of a broker. Until then messages that are left are told, by client.
 * Both return when it has ended.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* AMB_EXIT_TIMEOUT: messages were left. */
enum amb_exit amb_ctl_drain(struct amb_ctl *ctl);
enum amb_exit amb_ctl_stop(struct amb_ctl *ctl);
