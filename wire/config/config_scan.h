/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that libconfig would take for something else, without a word. One is a number of more than
 * 31 bits, of which it keeps the lowest. The other is a NUL within a text, which ends the text. A
 * scanner that knows texts, comments, names and numbers.
 *
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* Refuses what libconfig would misread. name: for errors. */
AMB_MUST_CHECK enum amb_status amb_config_scan(struct amb_config_build *build, const char *text,
                                               size_t len, const char *name);
