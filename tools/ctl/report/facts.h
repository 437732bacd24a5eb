/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine, as a bug report needs it: kernel, processors, memory, limits, the cgroup, and the
 * names of variables. Never a value of a variable, a command line, or the content of a file that
 * somebody has written.
 *
 * Threads: any. Memory: new references.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* root: "" or, in tests, a folder in place of /. pid: a broker's process, or 0. A figure that
 * cannot be read is left out. NULL: no memory. */
json_t *amb_facts_of(const char *root, int64_t pid, const char *const *environment);
