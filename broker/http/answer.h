/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. A request is looked at in this order: head, method, Host, key, path. An answer repeats
 * nothing of it but a wrong argument, as printable text.
 *
 * Threads: the observer. Memory: the text of an answer, until it is sent.
 */
#pragma once

#include <microhttpd.h>
#include <stddef.h>

/* libmicrohttpd's access handler. */
enum MHD_Result amb_http_answer(void *arg, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_size, void **request);
