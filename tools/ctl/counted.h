/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of a counters file: of a broker that hangs, or has gone.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

/* Prints the view, and says whose file it is and how old. DATA: the file is none, or the query
 * wrong. */
enum amb_exit amb_ctl_counted(const struct amb_ctl *ctl, const char *path, const char *query);
/* A broker has not answered. Where it is a local one with a counters file, the view is printed from
 * that, and OK returned; else `code`. */
enum amb_exit amb_ctl_counted_instead(const struct amb_ctl *ctl, const char *query,
                                      enum amb_exit code);
