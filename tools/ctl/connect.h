/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that subcommands share: common options, the connection and its errors, waiting until a
 * time or a signal, printing.
 * Threads: the main thread only; the handler of SIGINT and SIGTERM calls amb_stop.
 */
#pragma once

#include "tools/ctl/ctl.h"
#include "wire/base/status.h"

#include <jansson.h>

#define AMB_CTL_SLICE_NS (200 * AMB_MS) /* how long a wait may be deaf to a signal */

/* The options that all commands have, from ctl->line. */
void amb_ctl_take_options(struct amb_ctl *ctl);
/* Says what is wrong with the value of an option, "pub --file"; always AMB_EXIT_USAGE. */
enum amb_exit amb_ctl_bad(const char *option, const char *value, const char *wanted);

/* Opens ctl->conn and says what failed: "connect URL: reason". From here on a signal stops it. */
enum amb_exit amb_ctl_connect(struct amb_ctl *ctl);
/* SIGINT and SIGTERM stop the command; amb_ctl_connect does that, too. */
void amb_ctl_catch_signals(void);
/* Opens ctl->conn and says nothing. timeout_ns: 0 is the library's. *error: the reason. */
AMB_MUST_CHECK enum amb_status amb_ctl_open(struct amb_ctl *ctl, int64_t timeout_ns,
                                            struct amb_error *error);
/* A variable's text, "AMB_URL"; NULL: it is not set, or empty, which is the same to the library. */
const char *amb_ctl_variable(const char *name);
/* The URL that is asked for, or the default. */
const char *amb_ctl_url(const struct amb_ctl *ctl);
/* Closes it; keeps `code` unless that is 0 and the close failed. */
enum amb_exit amb_ctl_close(struct amb_ctl *ctl, enum amb_exit code);
/* Says "what: why" of a failed call and returns its exit code. */
enum amb_exit amb_ctl_fail(const struct amb_ctl *ctl, const char *what, enum amb_status status);

/* An answer as JSON, a new reference, and releases it. NULL: it is none, or there is no memory. */
json_t *amb_ctl_take_json(struct amb_msg *answer);
/* How long the broker's answer to a question is waited for: --timeout, else 5 s. */
int64_t amb_ctl_answer_ns(const struct amb_ctl *ctl);
/* True once SIGINT or SIGTERM has come. */
bool amb_ctl_stopped(void);
/* Until the deadline, at most a slice; 0 if it has passed. */
int64_t amb_ctl_slice_ns(const struct amb_ctl *ctl);
/* After a wait of one slice: does it go on? */
bool amb_ctl_again(const struct amb_ctl *ctl, enum amb_status status);

/* --hold: stays connected until a signal comes or the time of the command has passed. It also ends
 * with standard input, unless that is the source of messages. */
enum amb_exit amb_ctl_hold(struct amb_ctl *ctl, bool is_stdin_free);
/* In the form of --output; takes the reference. Returns how many columns a table did not have room
 * for. */
size_t amb_ctl_print(const struct amb_ctl *ctl, json_t *value);
