/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users file that is meant: that of the command line, else `auth.users` of a broker's
 * configuration, as brokerd reads it.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/common/exit.h"

/* *out is freed by the caller. file, config: options, or NULL. Blocks until brokerd has ended, if
 * it is asked. Errors are said. */
enum amb_exit amb_users_path_find(const char *file, const char *config, char **out);
