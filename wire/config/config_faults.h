/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All faults of a configuration, not the first one alone. A loop over values that do not depend on
 * each other asks amb_config_goes_on about each; without a list the first fault ends it.
 * Threads: one at a time. Memory: the list is its owner's, with a fixed size.
 */
#pragma once

#include "wire/config/config_types.h"

#include <stdbool.h>

struct amb_config_build;

#define AMB_CONFIG_FAULTS_MAX 32u

/* One fault, in the parts of its error text. */
struct amb_config_fault {
    char where[AMB_CONFIG_ERROR_MAX / 4]; /* "broker.conf:3" */
    char key[AMB_CONFIG_ERROR_MAX / 8];   /* "limits.window"; "": it is about the whole file */
    char reason[AMB_CONFIG_ERROR_MAX / 2];
};

struct amb_config_faults {
    unsigned count; /* those that are there */
    unsigned more;  /* and so many that had no room */
    bool is_told;   /* of the one at `count`: it is not a fault until nobody goes on without it */
    struct amb_config_fault items[AMB_CONFIG_FAULTS_MAX];
};

/* Keeps the parts of an error. */
void amb_config_fault_tell(struct amb_config_faults *faults, const char *where, const char *key,
                           const char *reason);
/* The one that was told last is a fault. */
void amb_config_fault_keep(struct amb_config_faults *faults);
/* "place: key: reason" into out, and returns it. AMB_CONFIG_ERROR_MAX bytes fit any. */
const char *amb_config_fault_format(const struct amb_config_fault *fault, char *out, size_t size);
/* So many there are; 0 without a list. */
unsigned amb_config_faults_count(const struct amb_config_build *build);
/* True: the loop has a next turn, with *status OK. A fault that was told is kept in the list, if
 * there is one. */
bool amb_config_goes_on(struct amb_config_build *build, enum amb_status *status);
