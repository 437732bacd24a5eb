/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of `broker-ctl page`: an address with a key that works once, and the socket that the
 * page can be had from without one.
 *
 * Threads: the observer. Memory: the text.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/counters/view.h"

/* arg: struct amb_http. text: [{"url": "http://HOST:PORT/?key=KEY", "socket": PATH,
 * "expires_s": 60}], for free(); "" where there is none. EINVAL: there is no page, and `why` has a
 * sentence. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_http_visit(void *arg, char **text,
                                              char why[AMB_COUNTERS_REFUSAL_MAX]);
