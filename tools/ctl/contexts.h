/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl context: the brokers that a user has names for. It asks no broker.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/cli/complete.h"
#include "tools/ctl/context.h"
#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_context_ls(struct amb_ctl *ctl);
enum amb_exit amb_ctl_context_show(struct amb_ctl *ctl);
enum amb_exit amb_ctl_context_add(struct amb_ctl *ctl);
enum amb_exit amb_ctl_context_use(struct amb_ctl *ctl);
enum amb_exit amb_ctl_context_rm(struct amb_ctl *ctl);

/* The context that holds for a command: --context, $AMB_CONTEXT or the chosen one, where --url and
 * $AMB_URL do not go before. It fills what options leave open. ctl->context is to be freed. */
enum amb_exit amb_ctl_use_context(struct amb_ctl *ctl);
/* Their names, for completion. */
void amb_ctl_context_names(struct amb_cli_candidates *to);
