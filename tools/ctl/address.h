/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommand `address`: the URLs that others can use for a broker on this machine. It asks no
 * broker.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_address(struct amb_ctl *ctl);
