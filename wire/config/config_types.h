/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields that hold several values, and the limits of any configuration.
 * Threads: any. Memory: all of it belongs to the configuration.
 */
#pragma once

#include "wire/codec/url.h"

#include <stddef.h>
#include <stdint.h>

#define AMB_CONFIG_FILE_MAX (UINT64_C(1) << 20) /* bytes of one file */
#define AMB_CONFIG_ERROR_MAX 1024u              /* any error text fits */
#define AMB_CONFIG_TIME_FOREVER INT64_MAX

/* OFF: denied; ON: an error at start where it cannot work; AUTO: used where it can work. */
enum amb_switch {
    AMB_SWITCH_AUTO,
    AMB_SWITCH_ON,
    AMB_SWITCH_OFF,
};

struct amb_config_place;

struct amb_config_strings {
    const char *const *items;
    size_t count;
    const struct amb_config_place *places; /* of each; NULL: they were not written one by one */
};

/* One setting of UCX, without its UCX_ prefix. */
struct amb_config_pair {
    const char *name, *value;
};

struct amb_config_pairs {
    const struct amb_config_pair *items;
    size_t count;
};

struct amb_config_urls {
    const struct amb_url *items;
    size_t count;
};
