/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands that ask the broker a question by name, and print its answer.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_admin(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_topics(struct amb_ctl *ctl, int argc, char **argv);
/* A command with one argument. */
enum amb_exit amb_ctl_order_of(struct amb_ctl *ctl, int argc, char **argv);
/* "kick CLIENT" or "kick --user NAME" */
enum amb_exit amb_ctl_kick(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_durable(struct amb_ctl *ctl, int argc, char **argv);
/* "user test NAME publish|subscribe|admin WHAT": AMB_EXIT_FORBIDDEN where the answer is no. */
enum amb_exit amb_ctl_user_test(struct amb_ctl *ctl, int argc, char **argv);
