/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_interface_address: the address of an interface that others can use.
 * Threads: any. Memory: none; the table is the caller's.
 */
#pragma once

#include "wire/base/interface.h"
#include "wire/base/status.h"

#include <amb/amb.h>
#include <stddef.h>

/* amb_interface_address of a table. */
AMB_MUST_CHECK enum amb_status amb_address_choose(const struct amb_interfaces *interfaces,
                                                  const char *interface, char *out, size_t size,
                                                  struct amb_error *error);
