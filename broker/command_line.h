/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokerd's command line.
 * Threads: start-up only. Memory: the lists are heap, their texts are argv's.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define AMB_OPTIONS_CONFIG_DEFAULT "/etc/ambroker/broker.conf"

enum amb_options_action {
    AMB_OPTIONS_RUN,
    AMB_OPTIONS_TEST_CONFIG,
    AMB_OPTIONS_PRINT_CONFIG,
    AMB_OPTIONS_VERSION,
    AMB_OPTIONS_HELP,
};

struct amb_options {
    enum amb_options_action action;
    const char *config; /* NULL: none, with --dev */
    bool dev;
    const char **listen, **settings; /* --listen URL, -o key=value */
    size_t listen_count, setting_count;
};

/* EINVAL: error holds one sentence; the caller shows the usage and ends with 64. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_options_init(struct amb_options *options, int argc, char **argv,
                                                char *error, size_t error_size);
void amb_options_fini(struct amb_options *options);
void amb_options_usage(FILE *out);
