/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl inside: one process, one connection, one command. This is the argument that main.c
 * hands to a command. The table of commands and options is tools/cli/table_ctl.c. Threads: the main
 * thread only; the handler of SIGINT and SIGTERM calls amb_stop.
 */
#pragma once

#include "tools/cli/parse.h"
#include "tools/cli/tables.h"
#include "tools/common/exit.h"
#include "tools/ctl/context.h"

#include <amb/amb.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_ctl {
    const struct amb_cli_line *line; /* the words that were typed */
    const char *query;               /* the broker's word for a view or a command; NULL: none */
    const char *url;                 /* NULL: the library's default */
    const char *credentials;
    const char *client_name;
    int64_t timeout_ns; /* -1: not given */
    enum amb_cli_form form;
    bool is_json;     /* no table */
    bool has_no_head; /* of tables and CSV */
    size_t width;     /* of tables; 0: any */
    json_t *units;    /* of the answer's columns; NULL: it says none */
    bool stays;       /* reconnects when the broker is lost, instead of ending */
    int64_t start_ns;
    struct amb_context context;        /* that the texts above may be of */
    amb_interrupted_fn is_interrupted; /* of the connection, as amb_options has it; or NULL */
    void *interrupted_arg;
    struct amb_conn *conn;
    char why[256];       /* of a connect that failed */
    enum amb_exit found; /* doctor: by its last findings */
};

typedef enum amb_exit (*amb_ctl_fn)(struct amb_ctl *ctl);
