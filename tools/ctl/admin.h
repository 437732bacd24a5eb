/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands that ask the broker a question by name, and print its answer.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_admin(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_topics(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_durable(struct amb_ctl *ctl, int argc, char **argv);
