/* SPDX-License-Identifier: Apache-2.0 */
/* broker-ctl report: what a bug report needs, as one archive. */
#pragma once

#include "tools/ctl/ctl.h"

/* Also of a broker that does not answer: then of its counters file, and of this machine. */
enum amb_exit amb_ctl_report(struct amb_ctl *ctl);
