/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that UCX is told, for the files that speak to UCX: the configuration of a context,
 * and the lock of all configuring.
 * Threads: any.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <ucp/api/ucp.h>

#define AMB_UCX_DEVICES_MAX 256u /* bytes of the names of devices */

/*
 * The configuration for these options: forced keys, the user's own, and ours unless the environment
 * has them. Calls setenv if options->use_environment. EINVAL, EUCX with a sentence. Under the lock
 * below.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_config_open(const struct amb_ucx_options *options,
                                                   char *error, size_t error_size,
                                                   ucp_config_t **out);
/*
 * UCX's configuration is the process's. Its parser has tables of its own and reads the environment,
 * also for contexts and workers that are made and go. In libamb several threads may connect at
 * once. So all calls that read or change it stand between these two. Nothing is called back
 * meanwhile, but UCX's log.
 */
void amb_ucx_process_lock(void);
void amb_ucx_process_unlock(void);

/* The lanes an endpoint uses, "tcp/lo rc_verbs/mlx5_0:1"; empty if UCX does not say. */
void amb_ucx_ep_lanes(ucp_ep_h ep, char *out, size_t size);
