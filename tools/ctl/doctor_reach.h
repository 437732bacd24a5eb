/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fix of a broker that does not answer, by what can be seen from here.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "tools/common/exit.h"

#include <stddef.h>

/* A sentence for that URL into out, and returns it. code: of the connect that failed. */
const char *amb_doctor_reach(const char *url, enum amb_exit code, char *out, size_t size);
