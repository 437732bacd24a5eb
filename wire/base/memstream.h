/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a stream of open_memstream(). Where it has lacked memory, fclose() may say that all is
 * well, and leave a text that is cut, or none.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Closes the stream; NULL is one that could not be opened. False: *text is not all of it; it is
 * freed, and NULL. */
bool amb_memstream_end(FILE *stream, char **text);
