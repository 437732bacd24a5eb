/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust groups of topics: their names become numbers, in the order in which rules name them first.
 *
 * Threads: main, at start and at a reload; questions, any. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_build.h"

/* The rules for one element of the list `topics`. */
AMB_MUST_CHECK enum amb_status amb_config_trust_check(const struct amb_config_target *element);
/* Numbers the groups of all rules. EINVAL: there are too many. */
AMB_MUST_CHECK enum amb_status amb_config_trust_finish(struct amb_config_build *build);

/* A bit for each group that has topics which the pattern matches, those of the broker aside. The
 * first rule that matches a topic decides, so a rule hides what it covers from those behind it. */
uint64_t amb_config_trust_met(const struct amb_config *config, const char *pattern, size_t len);
/* Has each topic the same group in both, and each group its number? Where there are others than the
 * default one, the rules that name them must be the same, in the same order. */
bool amb_config_trust_is_same(const struct amb_config *a, const struct amb_config *b);
