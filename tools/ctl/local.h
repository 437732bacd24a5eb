/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommand `local`: a private broker, and processes that it serves, until the last of them
 * has ended. Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_local(struct amb_ctl *ctl);
