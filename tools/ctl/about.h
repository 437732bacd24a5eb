/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl about itself: help, its version, scripts for shells, and hints.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_help(struct amb_ctl *ctl);
enum amb_exit amb_ctl_version(struct amb_ctl *ctl);
enum amb_exit amb_ctl_completion(struct amb_ctl *ctl);

/* One line where a pattern looks like one of another program's. It goes on all the same. */
void amb_ctl_hint(const struct amb_cli_line *line);
