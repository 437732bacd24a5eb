/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as the program sees them; this header has the library's own questions to them.
 * Threads: any that has the message. Memory: the delivery's.
 */
#pragma once

#include <stddef.h>

struct amb_msg;

/* The value of a property, also of the library's own. */
const void *amb_msg_own_prop(const struct amb_msg *msg, const char *name, size_t *len);
