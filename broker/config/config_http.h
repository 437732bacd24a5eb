/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners of HTTP in a configuration. Nothing is encrypted there, and beside metrics and health
 * names of topics can be read. So TCP has to be asked for, and off loopback twice.
 *
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_build.h"

/* The fault of one listener as it was written, or of a host's name; static. NULL: none. */
const char *amb_config_http_fault(const char *text);
const char *amb_config_host_fault(const char *text);
/* Fills config->http.doors, after config->listen is known. */
AMB_MUST_CHECK enum amb_status amb_config_http_finish(const struct amb_config_build *build);
