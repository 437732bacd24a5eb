/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a report: there whole, or not at all; mode 0600; nothing is overwritten, and no link
 * is followed, unless that is wanted.
 *
 *   open ─► a file beside it, of another name ─► keep: it takes the name    drop: it goes
 *
 * Threads: one. Memory: `path` stays the caller's; keep and drop close the stream.
 */
#pragma once

#include "tools/common/exit.h"
#include "wire/base/temp_file.h"

#include <stdbool.h>
#include <stdio.h>

struct amb_place {
    FILE *out;
    const char *path; /* the caller's; "-": standard output */
    struct amb_temp_file temp;
    bool is_forced; /* a file that is there may go */
};

/* USAGE: standard output is a terminal, or the path is too long. DATA: there is something already.
 * SOFTWARE: the system refuses. Not OK: it has been said. */
enum amb_exit amb_place_open(struct amb_place *place, const char *path, bool is_forced);
/* Not OK: it has been said, and there is no file. */
enum amb_exit amb_place_keep(struct amb_place *place);
/* Harmless after a keep. */
void amb_place_drop(struct amb_place *place);
