/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a view: its columns, the width of its table, how often it is asked for.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

#include <jansson.h>

/* Takes the options of a view's form. Returns how often it is asked for again; 0: once. */
int64_t amb_ctl_take_form(struct amb_ctl *ctl);
/* Prints an answer in that form; takes the reference. USAGE: a column of --columns is not there,
 * which has been said. */
enum amb_exit amb_ctl_show(const struct amb_ctl *ctl, json_t *value);
