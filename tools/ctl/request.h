/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands `request` and `reply`.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_request(struct amb_ctl *ctl);
enum amb_exit amb_ctl_reply(struct amb_ctl *ctl);
