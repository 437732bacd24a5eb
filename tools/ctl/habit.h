/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns as users of other programs write them.
 * Threads: any. Memory: static texts.
 */
#pragma once

/* The pattern that may have been meant, in a sentence; NULL: nothing strikes. The library itself
 * refuses '/'. */
const char *amb_habit_of_pattern(const char *pattern);
