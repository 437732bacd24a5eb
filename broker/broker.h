/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker as one object: its threads, listeners and their order of start and stop.
 * Threads: start, wait and destroy from one thread; drain and urls from any, and so the calls about
 * reloads, of one thread at a time.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_config;
struct amb_control_hooks;
struct amb_broker;
struct amb_notify;

/*
 * Opens the listeners and starts the threads. The config is read until destroy.
 * EUNREACHABLE: an address is in use. ELIMIT: too few descriptors. On failure error holds a
 * sentence. All signals should be blocked: threads inherit that.
 */
AMB_MUST_CHECK enum amb_status amb_broker_start(const struct amb_config *config, char *error,
                                                size_t error_size, struct amb_broker **out);
/* The listeners' URLs with their real ports, separated by spaces; behind them those of HTTP on TCP.
 * Lives as long as the broker. */
const char *amb_broker_urls(const struct amb_broker *broker);
/*
 * Takes over what may change while it runs: everything in config that amb_config_diff calls live.
 * The rest is the same as before. The broker keeps references of its own. ENOMEM, EINVAL, ELIMIT,
 * EUNREACHABLE: nothing has changed, and error holds a sentence.
 */
AMB_MUST_CHECK enum amb_status amb_broker_reload(struct amb_broker *broker,
                                                 const struct amb_config *config, char *error,
                                                 size_t error_size);
/* How many reloads clients have asked for by now. A reload that begins later is theirs, too. */
uint64_t amb_broker_reloads_asked(const struct amb_broker *broker);
/* One has ended. upto: what the former had said when it began. text: what is in force, or why
 * nothing has changed. rows: the same as JSON; NULL: no memory. */
void amb_broker_reloaded(struct amb_broker *broker, uint64_t upto, bool is_done, const char *text,
                         const char *rows);
/* For commands of clients. hooks live as long as the broker. */
void amb_broker_use_hooks(struct amb_broker *broker, const struct amb_control_hooks *hooks);
/* From here on the service manager is told of the state, and its watchdog is fed. Once; notify
 * lives as long as the broker. */
void amb_broker_use_notify(struct amb_broker *broker, struct amb_notify *notify);
/* Files of logs may have other names by now. */
void amb_broker_reopen_logs(struct amb_broker *broker);
/* Begins the graceful end: no new connections, what was accepted is delivered, at most
 * drain_timeout. Returns at once. A second call ends without waiting. */
void amb_broker_drain(struct amb_broker *broker);
/* Until the broker has ended; the exit status. */
int amb_broker_wait(struct amb_broker *broker);
void amb_broker_destroy(struct amb_broker **broker);
