/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl key: credentials of a user, as a file for the client and a text for the users file. It
 * asks no broker, and overwrites nothing.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_key(struct amb_ctl *ctl, int argc, char **argv);
