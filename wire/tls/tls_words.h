/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of TLS as sentences that say what to do, and as statuses.
 * Threads: the connection's. Only this room includes it.
 */
#pragma once

#include "wire/tls/tls.h"

/* Why a handshake has failed: fills in `why`, unless the check of a certificate has. */
enum amb_status amb_tls_explain_handshake(struct amb_tls *tls);
/* Why a connection that stood has failed: the same. */
void amb_tls_explain_failure(struct amb_tls *tls);
