/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A printed configuration (`brokerd --print-config`, wire/config/config_format.h), key by key.
 * Threads: any. Memory: points into the text; the path is the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_CONFIG_LINES_PATH_MAX 128u

struct amb_config_lines {
    const char *at;                        /* in the text, NUL-terminated */
    char group[AMB_CONFIG_LINES_PATH_MAX]; /* "memory.host"; "": outside of all */
};

struct amb_config_line {
    char path[AMB_CONFIG_LINES_PATH_MAX]; /* "memory.host.size" */
    const char *value;                    /* libconfig text, may have line feeds */
    size_t value_len;
    const char *origin; /* "default", "FILE:LINE", ... */
    size_t origin_len;
};

/* False: there is no other one, or the text is none that was printed so. */
bool amb_config_lines_next(struct amb_config_lines *lines, struct amb_config_line *out);
