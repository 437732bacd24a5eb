/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl user: edits a users file (add, set, rm) and shows it (list, show). Edits ask no
 * broker: they hold from its next reload on. Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_user_add(struct amb_ctl *ctl);
enum amb_exit amb_ctl_user_set(struct amb_ctl *ctl);
enum amb_exit amb_ctl_user_rm(struct amb_ctl *ctl);
enum amb_exit amb_ctl_user_list(struct amb_ctl *ctl);
enum amb_exit amb_ctl_user_show(struct amb_ctl *ctl);
