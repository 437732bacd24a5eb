/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message as text on standard output: its payload, its head, or fields of a format.
 * Threads: one. Memory: borrows the message for the call.
 */
#pragma once

#include <amb/amb.h>
#include <stdbool.h>
#include <stddef.h>

/* The bytes; on a terminal those that would drive it are shown as '.'. */
void amb_print_bytes(bool is_terminal, const void *data, size_t len);
/* A text of others in a line: characters that would break it are shown as '.'. */
void amb_print_text(const char *text);
/* "TOPIC seq=N size=N NAME=VALUE ...", without a line feed. */
void amb_print_header(const struct amb_msg *msg);
/* The fields and texts of a format that tools/cli/forms.h has found good. */
void amb_print_format(bool is_terminal, const char *format, const struct amb_msg *msg);
