/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker as one object: its threads, listeners and their order of start and stop.
 * Threads: start, wait and destroy from one thread; drain and urls from any.
 */
#pragma once

#include "wire/base/status.h"

#include <stddef.h>

struct amb_config;
struct amb_broker;

/*
 * Opens the listeners and starts the threads. The config is read until destroy.
 * EUNREACHABLE: an address is in use. ELIMIT: too few descriptors. On failure error holds a
 * sentence. All signals should be blocked: threads inherit that.
 */
AMB_MUST_CHECK enum amb_status amb_broker_start(const struct amb_config *config, char *error,
                                                size_t error_size, struct amb_broker **out);
/* The listeners' URLs with their real ports, separated by spaces. Lives as long as the broker. */
const char *amb_broker_urls(const struct amb_broker *broker);
/*
 * Takes over what may change while it runs: everything in config that amb_config_diff calls live.
 * The rest is the same as before. config lives as long as the broker. ENOMEM: nothing has changed.
 */
AMB_MUST_CHECK enum amb_status amb_broker_reload(struct amb_broker *broker,
                                                 const struct amb_config *config);
/* Begins the graceful end: no new connections, what was accepted is delivered, at most
 * drain_timeout. Returns at once. A second call ends without waiting. */
void amb_broker_drain(struct amb_broker *broker);
/* Until the broker has ended; the exit status. */
int amb_broker_wait(struct amb_broker *broker);
void amb_broker_destroy(struct amb_broker **broker);
