/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates and keys in a folder, as BASE.pem and BASE.key. A key's mode is 0600 from its first
 * byte on. No file is overwritten: a certificate that is renewed leaves the old one beside it.
 * Threads: the main thread only. Memory: pairs and JSON are the caller's. Each failure is said.
 */
#pragma once

#include "tools/common/exit.h"
#include "wire/tls/tls_issue.h"

#include <jansson.h>
#include <stdbool.h>

/* May a file begin so? Letters, digits, '.', '-' and '_', and no '.' first. */
bool amb_tls_files_is_base(const char *name);
/* None of them is there. */
enum amb_exit amb_tls_files_absent(const char *folder, const char *const *bases, size_t count);
enum amb_exit amb_tls_files_read(const char *folder, const char *base, struct amb_tls_pair **out);
/* The authority of that folder, which must not have expired. */
enum amb_exit amb_tls_files_authority(const char *folder, struct amb_tls_pair **out);
/* Both files or none. */
enum amb_exit amb_tls_files_write(const char *folder, const char *base,
                                  const struct amb_tls_pair *pair);
/* The certificate alone; the old one becomes BASE.pem.1, or the next number that is free. */
enum amb_exit amb_tls_files_replace(const char *folder, const char *base,
                                    const struct amb_tls_pair *pair);
void amb_tls_files_remove(const char *folder, const char *base);
/* {"file", "names", "until", "days_left", "pin"} */
json_t *amb_tls_files_describe(const char *folder, const char *base,
                               const struct amb_tls_pair *pair);
/* An array of these, of each pair in the folder. Where one cannot be read, *out has the others, or
 * is left alone. */
enum amb_exit amb_tls_files_list(const char *folder, json_t **out);
