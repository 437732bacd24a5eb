/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that libamb reads of a configuration file, one row a key. A new key is a field in
 * client_config.h and a row here. Keys and sections of the broker have rows without a field, so
 * that one file can hold both.
 * Threads: any (constants). Memory: static.
 */
#pragma once

#include "wire/config/config_key.h"

/* Offsets into struct amb_client_config. */
extern const struct amb_config_schema amb_client_schema;
/* The variable of the environment that gives the key; NULL: there is none. */
const char *amb_client_variable(const char *path);
