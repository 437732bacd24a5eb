/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message as a JSON object.
 * Threads: one. Memory: borrows the message for the call.
 */
#pragma once

#include <amb/amb.h>
#include <jansson.h>

/* JSON is UTF-8; names of files need not be: then all that is not ASCII becomes '?'. */
json_t *amb_json_text(const char *text);
/* Topic, sequence, key, properties and the like, without the payload; a new reference. `name` is
 * that of a file. NULL: no memory. */
json_t *amb_message_json(const struct amb_msg *msg, const char *name);
