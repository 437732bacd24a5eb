/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl inside: one process, one connection, one subcommand. main.c holds the table of
 * subcommands; each file adds one group of them; connect.c is what they share.
 * Threads: the main thread only; the handler of SIGINT and SIGTERM calls amb_stop.
 */
#pragma once

#include "tools/common/exit.h"

#include <amb/amb.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_CTL_SLICE_NS (200 * AMB_MS) /* how long a wait may be deaf to a signal */

struct amb_ctl {
    const char *url; /* NULL: the library's default */
    const char *credentials;
    const char *client_name;
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

/* Takes one of AMB_CTL_OPTIONS; false: it is wrong, and has been said. */
bool amb_ctl_option(struct amb_ctl *ctl, int option, const char *value);
/* Says what is wrong with the value of an option; always AMB_EXIT_USAGE. */
enum amb_exit amb_ctl_bad(const char *option, const char *value, const char *wanted);

/* Opens ctl->conn and says what failed: "connect URL: reason". From here on a signal stops it. */
enum amb_exit amb_ctl_connect(struct amb_ctl *ctl);
/* Closes it; keeps `code` unless that is 0 and the close failed. */
enum amb_exit amb_ctl_close(struct amb_ctl *ctl, enum amb_exit code);
/* Says "what: why" of a failed call and returns its exit code. */
enum amb_exit amb_ctl_fail(const struct amb_ctl *ctl, const char *what, enum amb_status status);

/* True once SIGINT or SIGTERM has come. */
bool amb_ctl_stopped(void);
/* Until the deadline, at most a slice; 0 if it has passed. */
int64_t amb_ctl_slice_ns(const struct amb_ctl *ctl);
/* After a wait of one slice: does it go on? */
bool amb_ctl_again(const struct amb_ctl *ctl, enum amb_status status);

/* --hold: stays connected until a signal comes, the time of the command has passed or, where it is
 * not the source of messages, standard input has ended. */
enum amb_exit amb_ctl_hold(struct amb_ctl *ctl, bool is_stdin_free);
/* As a table or as one line of JSON on standard output; takes the reference. */
void amb_ctl_print(const struct amb_ctl *ctl, json_t *value);

enum amb_exit amb_ctl_admin(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_topics(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_durable(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_pub(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_sub(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_request(struct amb_ctl *ctl, int argc, char **argv);
enum amb_exit amb_ctl_reply(struct amb_ctl *ctl, int argc, char **argv);
