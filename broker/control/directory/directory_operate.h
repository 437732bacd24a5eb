/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's hand on topics: found by name over tenants, and emptied. directory_leave.h removes
 * one.
 *
 * Threads: the control thread. Memory: an order for each priority of a topic.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* The main topic of that name. tenant: of that one alone; AMB_TENANT_ANY: of all, or of the one of
 * that name (NULL: any). ENOTFOUND; EINVAL: several tenants have it. Looks at all topics. */
AMB_MUST_CHECK enum amb_status amb_directory_find(struct amb_directory *directory, uint32_t tenant,
                                                  const char *tenant_name, const char *name,
                                                  struct amb_dir_topic **out);
/* All priorities of it are emptied. `done` is called with context for each struct
 * amb_order_topic_purge. Returns how often. */
unsigned amb_directory_purge(struct amb_directory *directory, struct amb_dir_topic *main,
                             amb_order_done_fn done, void *context);
