/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top, as it was asked for. The room knows no broker: answers, and the news that a signal has come,
 * are the caller's.
 * Threads: the main one. Memory: the caller's.
 */
#pragma once

#include "tools/common/exit.h"
#include "tools/ctl/top/lens.h"
#include "tools/ctl/top/sample.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_top {
    amb_top_ask ask;
    bool (*is_stopped)(void *arg); /* a signal has come, or the time of the command is over */
    void *arg;                     /* of both */
    enum amb_top_view view;
    const char *match; /* a pattern, or NULL */
    const char *sort;  /* the title of a column, or NULL */
    int64_t interval_ns;
    uint64_t blocks; /* end after so many; 0: go on */
    size_t rows;     /* of a block; 0: all */
    bool is_wide;    /* blocks have all columns */
    bool is_batch;   /* blocks, also on a terminal */
    /* Prints a block in another form than text; takes the reference. NULL: text. */
    void (*print)(void *arg, json_t *block);
    /* Set by amb_top_run, for `ask` to call now and then while it waits. It takes keys and draws.
     * True: the answer is not wanted any more, so `ask` may answer ECANCELED. */
    bool (*is_unwanted)(void *run);
    void *run;
};

/* Blocks, or a screen where there is a terminal. USAGE: the view has no such column. UNAVAILABLE:
 * no figures have come at all. */
enum amb_exit amb_top_run(struct amb_top *top);
