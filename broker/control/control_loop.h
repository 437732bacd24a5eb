/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread's life and loop. Apart from control.c because it stands above clients, door
 * and drain, and they above control.
 *
 * Threads: as each function says.
 */
#pragma once

#include "broker/control/clients/control.h"

/* Opens the listeners. EUNREACHABLE: in use; error (may be NULL) then holds a sentence. */
AMB_MUST_CHECK enum amb_status
amb_control_init(struct amb_control *control, const struct amb_config *config,
                 struct amb_shard *const *shards, unsigned shard_count,
                 struct amb_membudget *budget, struct amb_ucx_context *ucx,
                 const struct amb_transports *transports, char *error, size_t error_size);
/* For struct amb_shard_upcalls.topic_heard: on a worker, whose control is this one's inbox. */
void amb_control_topic_heard(struct amb_topic *topic);
/* The thread's function: until drained. Afterwards no session is left. */
void amb_control_run(struct amb_control *control);
/* After the workers have ended. */
void amb_control_fini(struct amb_control *control);
