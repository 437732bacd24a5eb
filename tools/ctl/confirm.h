/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that cannot be taken back names its broker and asks on a terminal. Without one it needs
 * --yes. Such a command has that option.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* OK: go on; at once for other commands. USAGE: no, which has been said. Also of a context that is
 * wrong. */
enum amb_exit amb_ctl_confirm(struct amb_ctl *ctl);
