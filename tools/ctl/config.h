/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommand `config`: the values that hold for a broker or for a program, and where each comes
 * from. It asks no broker, but for --role running.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_config(struct amb_ctl *ctl);
