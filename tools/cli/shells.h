/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts that make a shell ask a program for the words that complete a line.
 * Threads: any. Memory: none.
 */
#pragma once

#include "tools/cli/cli.h"

#include <stdio.h>

/* Of "bash", "zsh" or "fish". False: there is none of that name. */
bool amb_cli_shell_print(const struct amb_cli_program *program, const char *shell, FILE *out);
