/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS in a configuration: the files are read, and checked against each other. Encrypted listeners
 * need them, and somebody who says who may come in.
 *
 * Threads: main, at start and at a reload. Memory: the context is the configuration's reference.
 */
#pragma once

#include "wire/config/config_build.h"

/* Fills config->tls.context. */
AMB_MUST_CHECK enum amb_status amb_config_tls_finish(const struct amb_config_build *build);
