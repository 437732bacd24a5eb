/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers that all roles have: the defaults of a schema, a file, and single texts above them.
 * Threads: one at a time. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* Each row's default_text. */
AMB_MUST_CHECK enum amb_status amb_config_defaults_apply(struct amb_config_build *build);
/* The file of that path, and those that it includes. Without a path the text, which includes
 * nothing; its place is "configuration:LINE". Both NULL: there is no such layer. */
AMB_MUST_CHECK enum amb_status amb_config_file_apply(struct amb_config_build *build,
                                                     const char *path, const char *text,
                                                     size_t len);
/* One key, by a text without a type: of a variable, an option, a default. */
AMB_MUST_CHECK enum amb_status amb_config_text_set(struct amb_config_build *build, const char *path,
                                                   const char *text,
                                                   const struct amb_config_place *place);
/* The value of NAME=value in a list like environ (or NULL). NULL: it is not there, or is empty. */
const char *amb_config_variable_find(const char *const *environment, const char *name);
