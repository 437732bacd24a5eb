/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a TLS connection, charged to the heap account of the session that it belongs to.
 *
 * Threads: the connection's. Memory: none of its own.
 */
#pragma once

#include "broker/base/heap_account.h"

struct amb_tls;

/* As amb_tls_charge, to that account, which must outlive the connection or the next charge. */
bool amb_tls_charge_heap(struct amb_tls *tls, struct amb_heap_account *account);
