/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as the program sees them; this header has the library's own questions to them.
 * Threads: any that has the message. Memory: the delivery's.
 */
#pragma once

#include <stddef.h>

struct amb_msg;

/* amb_msg_release_on of a holder that cannot keep it: where the stream captures, it is released
 * when that has ended and the stream has run. Such messages have one thread a connection. */
void amb_msg_release_when_free(struct amb_msg *msg, void *stream);
/* The value of a property, also of the library's own. */
const void *amb_msg_own_prop(const struct amb_msg *msg, const char *name, size_t *len);
