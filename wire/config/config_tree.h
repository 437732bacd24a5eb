/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libconfig's tree into fields: walks what was written and asks the schema about each path.
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* All values of a file's text. name: for errors. folder: of @include, NULL: there are none. */
AMB_MUST_CHECK enum amb_status amb_config_tree_read(struct amb_config_build *build,
                                                    const char *text, const char *name,
                                                    const char *folder);
/* One value in libconfig's syntax, as "( { match = \"a\"; } )". */
AMB_MUST_CHECK enum amb_status amb_config_tree_value(const struct amb_config_target *target,
                                                     const char *text);
struct amb_config_value amb_config_value_of(const struct config_setting_t *setting);
/* `place` with the setting's own file and line. */
struct amb_config_place amb_config_place_at(const struct amb_config_build *build,
                                            const struct amb_config_place *place,
                                            const struct config_setting_t *setting);
/* Of a group, a list, an array; 0 of single values. */
size_t amb_config_length(const struct config_setting_t *setting);
const struct config_setting_t *amb_config_element(const struct config_setting_t *setting,
                                                  size_t index);
/* Of what is in a group. */
const char *amb_config_name(const struct config_setting_t *setting);
