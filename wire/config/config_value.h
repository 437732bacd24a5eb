/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value into one field, by the row's type: dispatch and single values.
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* Sets the target's field. */
AMB_MUST_CHECK enum amb_status amb_config_value_set(const struct amb_config_target *target,
                                                    const struct amb_config_value *value);
/* Finds the row of `path`, sets its field and remembers the place. */
AMB_MUST_CHECK enum amb_status amb_config_path_set(struct amb_config_build *build, const char *path,
                                                   const struct amb_config_value *value,
                                                   const struct amb_config_place *place);
