/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broker's configuration, as `brokerd --print-config` prints it. So a file means the same here
 * and there. It is the brokerd that belongs to this program.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/common/exit.h"

/*
 * *out: libconfig text, each key with its origin, to be freed. Blocks until brokerd has ended.
 *   command  of broker-ctl, for errors, which are said
 *   config   a file; NULL: brokerd's own choice
 *   options  further ones of brokerd, NULL ends them; or NULL
 */
enum amb_exit amb_ctl_broker_config(const char *command, const char *config, char *const *options,
                                    char **out);
