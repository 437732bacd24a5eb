/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between two configurations, one by one: keys, and of lists of groups as `topics`
 * the keys of each element.
 * Threads: any. Memory: texts of a change live for its call.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_key.h"

struct amb_config_change {
    const char *key;    /* "limits.window", "topics[camera.>].ttl", "topics[camera.>]" */
    const char *before; /* as libconfig text; NULL: not shown, for it is secret, or a file's */
    const char *after;  /* the same */
    const char *place;  /* of the new value: "broker.conf:3" */
    enum amb_config_apply apply;
};

typedef void (*amb_config_change_fn)(void *arg, const struct amb_config_change *change);

void amb_config_changes(const struct amb_config *before, const struct amb_config *after,
                        amb_config_change_fn fn, void *arg);
