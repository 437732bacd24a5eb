/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommand `sub`: receives messages, and prints, saves or counts them.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_sub(struct amb_ctl *ctl);
