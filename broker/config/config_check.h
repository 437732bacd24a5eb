/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules over several keys, and values that depend on the machine.
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_build.h"

/* Turns "auto" into numbers, reads the token file, checks what several keys say together. former:
 * in force; NULL: none. OK also where the list of faults has got longer by it. */
AMB_MUST_CHECK enum amb_status amb_config_finish(struct amb_config_build *build,
                                                 const struct amb_config_machine *machine,
                                                 const struct amb_config *former);
