/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast this machine encrypts by the suite of a connection. It is measured where it is asked
 * for, on a buffer of its own: the connection's keys and records are not touched.
 * Threads: any, while the connection's handshake is done. Memory: a record, and libcrypto's.
 */
#pragma once

#include "wire/tls/tls.h"

#define AMB_TLS_SUITES 3u

/* Of its suite, below AMB_TLS_SUITES: for a table of what was measured. */
unsigned amb_tls_suite_index(const struct amb_tls *tls);
/* Bytes a second that one core makes into full records, in about a millisecond; 0: libcrypto has
 * failed. */
uint64_t amb_tls_measure(const struct amb_tls *tls);
