/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a running broker about its configuration, and the commands that change it. Each
 * refusal is a line of its own on standard error: "FILE:LINE: KEY: WHY (was X, becomes Y)".
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* Asks with ctl->query. AMB_EXIT_CONFIG where something is refused. */
enum amb_exit amb_ctl_config_ask(struct amb_ctl *ctl);
/* With the path of a file behind it, which the broker reads. */
enum amb_exit amb_ctl_config_file(struct amb_ctl *ctl);
/* With KEY=VALUE. AMB_EXIT_USAGE where that is refused. */
enum amb_exit amb_ctl_config_set(struct amb_ctl *ctl);
/* The values in force, or the defaults. has_origin: also where each comes from. */
enum amb_exit amb_ctl_config_running(struct amb_ctl *ctl, bool has_origin, bool are_defaults);
