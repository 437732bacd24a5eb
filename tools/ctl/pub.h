/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommand `pub`: publishes files, generated messages or standard input.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_pub(struct amb_ctl *ctl);
