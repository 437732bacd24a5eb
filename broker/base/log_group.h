/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of log lines that are alike: they are of one place in the code, and have the same text. A
 * place has AMB_LOG_GROUP_TEXTS groups, for a peer may choose a part of the text. All other lines
 * of that place are one group, its rest.
 *
 * Threads: any, under the caller's lock. Memory: the caller's table of groups.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define AMB_LOG_GROUP_TEXTS 16u

struct amb_log_group {
    const char *site; /* the format of its lines; NULL: free */
    uint64_t hash;    /* of its text */
    int64_t at_ns;    /* the caller's: the group with the least makes room */
    bool is_rest;     /* of the texts of its place that were too many */
};

struct amb_log_found {
    unsigned at; /* the line's group, or the place for a new one: free, else that with the least */
    bool is_there; /* it has one */
    bool is_rest;  /* its group is, or will be, the rest of its place */
};

/* Texts are told apart by this alone. Its key is the process's own, so no peer can choose two texts
 * of one hash. */
uint64_t amb_log_group_hash(const char *text);
void amb_log_group_find(const struct amb_log_group *groups, unsigned count, const char *site,
                        uint64_t hash, struct amb_log_found *out);
