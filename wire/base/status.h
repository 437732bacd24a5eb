/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one status type (enum amb_status of <amb/types.h>) and its texts.
 * A function that can fail returns it; outputs come last and stay untouched on failure. The first
 * function that detects an error logs it once, callers pass it on.
 * Threads: any. Memory: static texts only.
 */
#pragma once

#include <amb/types.h>

#define AMB_MUST_CHECK __attribute__((warn_unused_result))

/* Lower-case text without a full stop; "unknown status" for values that are none of ours. */
const char *amb_status_text(enum amb_status status);
/* "EAGAIN", "OK", ...: the constant's name without its prefix, for logs and JSON. */
const char *amb_status_name(enum amb_status status);
enum amb_scope amb_status_scope_of(enum amb_status status);
/*
 * The status for errno of a failed system call:
 *
 *   ENOMEM, EAGAIN      their own
 *   EMFILE, ENFILE      ELIMIT
 *   EACCES, EPERM       EFORBIDDEN
 *   connection errors   EUNREACHABLE or ELOST
 *   others              EINTERNAL
 */
enum amb_status amb_status_from_errno(int error);
