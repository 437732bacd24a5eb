/* SPDX-License-Identifier: Apache-2.0 */
/* broker-ctl top: figures of a broker as they change. */
#pragma once

#include "tools/ctl/ctl.h"

/* A screen, or blocks of text. Its end is the user's, a signal's, or that of --timeout: OK. */
enum amb_exit amb_ctl_top(struct amb_ctl *ctl);
