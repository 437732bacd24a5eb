/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users in a configuration: their file is read, and checked as a whole.
 *
 * Threads: main, at start and at a reload. Memory: the set is the configuration's reference.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_build.h"

/* Fills config->auth.users and .numbers. former: in force; NULL: none. Users keep their numbers. */
AMB_MUST_CHECK enum amb_status amb_config_auth_finish(const struct amb_config_build *build,
                                                      const struct amb_config *former);
/* Does anything say who may come in by TLS? */
bool amb_config_auth_asks(const struct amb_config *config);
