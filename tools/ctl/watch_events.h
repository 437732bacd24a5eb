/* SPDX-License-Identifier: Apache-2.0 */
/* broker-ctl events: the broker's $SYS topics, a line for each event. */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_events(struct amb_ctl *ctl);
