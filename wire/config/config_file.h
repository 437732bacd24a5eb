/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: read whole, at most AMB_CONFIG_FILE_MAX bytes, before libconfig sees a byte.
 * libconfig opens @include files by itself, so each such line is checked here first. It must be a
 * plain path below the first file's folder, to a regular file of the same limits.
 *
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* Reads a file and checks it and what it includes; the outputs are the configuration's memory. */
AMB_MUST_CHECK enum amb_status amb_config_file_read(struct amb_config_build *build,
                                                    const char *path, const char **text_out,
                                                    const char **folder_out);
/* Refuses a NUL, an @include that leaves `folder` (NULL: any @include), and all that
 * amb_config_scan refuses. depth 0 at the first file. */
AMB_MUST_CHECK enum amb_status amb_config_text_check(struct amb_config_build *build,
                                                     const char *text, size_t len, const char *name,
                                                     const char *folder, unsigned depth);
