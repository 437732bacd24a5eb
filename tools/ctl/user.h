/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl user: edits a users file (add, set, rm), shows it (list, show), and asks the broker
 * for a user's rights (test). Edits ask no broker: they hold from its next reload on. Threads: the
 * main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_user(struct amb_ctl *ctl, int argc, char **argv);
