/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl doctor: the broker's findings, those of its figures, and those of this side.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* AMB_EXIT_WARNING, AMB_EXIT_CRITICAL: by the worst finding. A broker that does not answer is a
 * finding too, and the exit code is that of the connect. */
enum amb_exit amb_ctl_doctor(struct amb_ctl *ctl);
