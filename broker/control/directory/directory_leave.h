/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics leave: the idle ones, those that may go, and the stages in which workers forget them
 * (drawn in directory.h).
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* Of the topics that this user pays for, the one idle for longest leaves at once. False: none of
 * those idle for longest is its. */
bool amb_directory_leave_oldest_of(struct amb_directory *directory, const struct amb_user *user);
/* An operator removes a main topic. It leaves at once, with its kin. It goes when those who read it
 * by a wildcard have come to its end. Returns why not: static; NULL: it leaves. */
const char *amb_directory_remove(struct amb_directory *directory, struct amb_dir_topic *topic);
/* Now and then: asks homes whether topics that have been idle for long enough may leave. Goes on
 * with those that leave where a worker was not ready. Has amb_directory_work tell the counts of
 * quiet topics that have changed so far. */
void amb_directory_tick(struct amb_directory *directory);

/* For the directory's own files: */
/* Its last publisher or reader may have gone: if so, it is idle from here on. */
void amb_directory_rest(struct amb_directory *directory, struct amb_dir_topic *topic);
/* The one idle for longest leaves, to make room. False: none is idle. */
bool amb_directory_leave_oldest(struct amb_directory *directory);
