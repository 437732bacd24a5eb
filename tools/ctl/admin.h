/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands that ask the broker a question by name, and print its answer.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* Asks with ctl->query and the arguments. AMB_EXIT_FORBIDDEN where the answer is no. */
enum amb_exit amb_ctl_ask(struct amb_ctl *ctl);
/* "kick CLIENT" or "kick --user NAME" */
enum amb_exit amb_ctl_kick(struct amb_ctl *ctl);

/* The broker takes a question apart at blanks: behind one an argument would be an option of its.
 * False: it has been said, by that rule. Texts of options are words by their type. */
bool amb_ctl_is_one_word(const struct amb_ctl *ctl, const char *word, const char *rule);

/* Asks and prints once; OK: it may be asked again. */
typedef enum amb_exit (*amb_ctl_show_fn)(struct amb_ctl *ctl, const char *query);
/* --watch: again and again, until a signal, --timeout or a failure. */
enum amb_exit amb_ctl_watch(struct amb_ctl *ctl, const char *query, int64_t every_ns,
                            amb_ctl_show_fn show);
