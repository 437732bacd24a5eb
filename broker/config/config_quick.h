/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An encrypted listener of the --dev profile for which nothing else is said: no key of tls but
 * threads, none of auth, no roles. It gets a certificate, and one user, `dev`, who may do all. The
 * program has a function that finds their files, or makes them. A reload has none, and keeps them.
 *
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_build.h"

#define AMB_CONFIG_QUICK_USER "dev" /* the name of the user, of his tenant and of his role */

/* Before the checks between keys. Nothing to do is AMB_OK. */
AMB_MUST_CHECK enum amb_status amb_config_quick_apply(struct amb_config_build *build,
                                                      const struct amb_config_source *source);
