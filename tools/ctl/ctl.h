/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl inside: one process, one connection, one subcommand. This is the argument that main.c
 * hands to a subcommand, and its table's row of each.
 * Threads: the main thread only; the handler of SIGINT and SIGTERM calls amb_stop.
 */
#pragma once

#include "tools/common/exit.h"

#include <amb/amb.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_ctl {
    const char *url; /* NULL: the library's default */
    const char *credentials;
    const char *client_name;
    const char *file;   /* of counters, in place of a broker; NULL: none */
    int64_t timeout_ns; /* -1: not given */
    bool is_json;
    bool is_help_wanted;
    bool stays; /* reconnects when the broker is lost, instead of ending */
    int64_t start_ns;
    struct amb_conn *conn;
};

typedef enum amb_exit (*amb_ctl_fn)(struct amb_ctl *ctl, int argc, char **argv);

struct amb_ctl_command {
    const char *name;
    amb_ctl_fn run; /* argv[0] is the command's name */
    const char *arguments;
    const char *help;
};

/* Long options that every subcommand takes; the last entry of each array is { 0 }. */
#define AMB_CTL_OPTIONS                                                                            \
    {"url", required_argument, NULL, 'u'}, {"output", required_argument, NULL, 'o'},               \
        {"credentials", required_argument, NULL, 'C'},                                             \
        {"client-name", required_argument, NULL, 'N'}, {"timeout", required_argument, NULL, 'T'},  \
    {                                                                                              \
        "help", no_argument, NULL, 'h'                                                             \
    }
