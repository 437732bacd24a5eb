/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that hold several: names, URLs, settings of UCX.
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* An item_fault: of GPUs. They go into no path; a part of one may be "MIG-GPU-UUID/13/0". */
const char *amb_config_gpu_fault(const char *name);
/* By type, for amb_config_value_set. */
AMB_MUST_CHECK enum amb_status amb_config_strings_set(const struct amb_config_target *target,
                                                      const struct amb_config_value *value);
AMB_MUST_CHECK enum amb_status amb_config_urls_set(const struct amb_config_target *target,
                                                   const struct amb_config_value *value);
AMB_MUST_CHECK enum amb_status amb_config_pairs_set(const struct amb_config_target *target,
                                                    const struct amb_config_value *value);
/* Sets one name of a row of type PAIRS, beside those there are. */
AMB_MUST_CHECK enum amb_status amb_config_pair_put(struct amb_config_build *build, const char *path,
                                                   const char *name, const char *value,
                                                   const struct amb_config_place *place);
/* Replaces the list of a row of type URLS; each text is one URL, whatever is in it. */
AMB_MUST_CHECK enum amb_status amb_config_urls_put(struct amb_config_build *build, const char *path,
                                                   const char *const *urls, size_t count,
                                                   const struct amb_config_place *place);
