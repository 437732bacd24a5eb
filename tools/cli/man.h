/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual page of a program, in mdoc, from its table.
 * Threads: any. Memory: none.
 */
#pragma once

#include "tools/cli/cli.h"

#include <stdio.h>

void amb_cli_man_print(const struct amb_cli_program *program, FILE *out);
