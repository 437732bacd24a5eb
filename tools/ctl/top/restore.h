/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal that is as it was before, also where the process ends by a signal or a crash. The
 * handlers use calls alone that are safe in them.
 *
 * A first SIGINT or SIGTERM goes to the handler that was there; the second one ends the process.
 * SIGHUP, SIGQUIT and those of a crash end it at once. A signal that is ignored stays so.
 *
 * Threads: the main one; handlers run on any. Memory: static.
 */
#pragma once

/* After the screen was entered: `leave` is what a terminal is told to leave it. Standard error is
 * kept from here on, where it is a terminal. */
void amb_restore_arm(const char *leave);
/* The screen has been left in order: kept messages are printed. */
void amb_restore_disarm(void);
/* Before the screen is entered: the modes of the terminal are those that it gets back. */
void amb_restore_keep_modes(void);
