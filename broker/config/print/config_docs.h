/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commented example file (etc/broker.conf) and the reference page (docs/config.md).
 * Threads: any. Memory: none.
 */
#pragma once

#include "broker/config/config.h"

/* Generated documents: the commented example file and the reference page. */
void amb_config_print_example(FILE *out);
void amb_config_print_reference(FILE *out);
/* broker.conf(5), in mdoc. */
void amb_config_print_manual(FILE *out);
