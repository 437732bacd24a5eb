/* SPDX-License-Identifier: Apache-2.0 */
/* broker-ctl ping: round trips to the broker's control thread, and their times. */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_ping(struct amb_ctl *ctl);
