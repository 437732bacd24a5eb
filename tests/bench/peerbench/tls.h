/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backends over TLS share one suite. For each run broker-ctl makes one authority and one
 * certificate (P-256), in the scratch folder of that run.
 *
 * Threads: the harness's processes each have one. Memory: paths are the caller's.
 */
#pragma once

#include <stdbool.h>

struct pb_opts;

/* Of TLS 1.3, and the one that each of them uses. */
#define TLS_SUITE "TLS_AES_128_GCM_SHA256"
/* A name that the certificate is for. It is for 127.0.0.1, too. */
#define TLS_NAME "localhost"

struct tls_path {
    char text[160];
};

/* Makes ca.pem, server.pem and server.key. False, after a word about it: they are not there. */
bool tls_make(const struct pb_opts *opts);
/* Where such a file is. */
struct tls_path tls_path(const struct pb_opts *opts, const char *file);
