/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal: entered and left as a whole, keys in, lines out. The only file with ncurses.
 *
 * The terminal is as it was before, however the process ends: in order, by a signal, or by a crash.
 * SIGKILL alone leaves it as it is. Messages on standard error are kept meanwhile where that is
 * the terminal, too, and are printed afterwards.
 *
 * Threads: the main one. Memory: ncurses' own.
 */
#pragma once

#include "tools/ctl/top/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Are standard input and output a terminal that a screen can be on? */
bool amb_top_screen_is_possible(void);
/* False: there is no such terminal, and `why` has a sentence. */
bool amb_top_screen_enter(bool has_colour, char why[AMB_TOP_NOTE_MAX]);
void amb_top_screen_leave(void);
void amb_top_screen_size(size_t *width, size_t *height);
/* Between these two, lines are put; `arg` of the put is not looked at. */
void amb_top_screen_begin(void);
void amb_top_screen_put(void *arg, size_t line, enum amb_top_style style, const char *text);
void amb_top_screen_end(void);
/* A key, waited for at most so long; 0: none has come. A change of the terminal's size, or a
 * signal, ends the wait as well. UINT32_MAX: the terminal has gone. */
uint32_t amb_top_screen_key(int64_t wait_ns);
