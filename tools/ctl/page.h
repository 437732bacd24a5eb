/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl page: the address of the broker's page, with a key that works once. Where the page is
 * on a Unix socket alone, this command leads a port of loopback there until it ends.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_page(struct amb_ctl *ctl);
