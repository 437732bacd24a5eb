/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of a counters file: of a broker that hangs, or has gone.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"
#include "wire/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define AMB_CTL_COUNTED_PATH_MAX 256u

/* Prints the view, and says whose file it is and how old. DATA: the file is none, or the query
 * wrong. */
enum amb_exit amb_ctl_counted(const struct amb_ctl *ctl, const char *path, const char *query);
/* A broker has not answered. Where it is a local one with a counters file, the view is printed from
 * that, and OK returned; else `code`. */
enum amb_exit amb_ctl_counted_instead(const struct amb_ctl *ctl, const char *query,
                                      enum amb_exit code);
/* Can views be made of it? Not OK: that has been said. */
enum amb_exit amb_ctl_counted_check(const char *path);
/* Views of the file at one moment, answers[i] NULL where it does not have that one; the caller's
 * references. The note says whose file it is, how old, and of a query that is wrong why. */
AMB_MUST_CHECK enum amb_status amb_ctl_counted_all(const char *path, const char *const *queries,
                                                   size_t count, json_t **answers, char *note,
                                                   size_t note_size);
/* The counters file of the broker that is asked. False: it is none of this machine, or there is no
 * file that may be read. */
bool amb_ctl_counted_path(const struct amb_ctl *ctl, char out[AMB_CTL_COUNTED_PATH_MAX]);
