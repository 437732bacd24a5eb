/* SPDX-License-Identifier: Apache-2.0 */
/* broker-ctl check: one figure of a broker, for Nagios and its kin. */
#pragma once

#include "tools/ctl/ctl.h"

/* One line on standard output; 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. Wrong limits: 64. */
enum amb_exit amb_ctl_check(struct amb_ctl *ctl);
