/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demands of a URL (?expect=rdma, wire/codec/expect.h), as far as this side knows better than the
 * broker. It knows those that contradict the rest of the URL, the lanes that UCX has chosen, and
 * the driver.
 * Brokers that know nothing of demands are found out here, too.
 *
 * Threads: the caller of amb_connect; at a reconnect libamb's. Memory: none.
 */
#pragma once

#include "client/conn/conn.h"
#include "wire/codec/url.h"

/* Before it is dialled. EINVAL: no session of that URL can be so; *error says why. */
AMB_MUST_CHECK enum amb_status amb_insist_url(const struct amb_url *url, struct amb_error *error);
/* With the link that there is. ENOTSUP: not met; *error says what is missing. */
AMB_MUST_CHECK enum amb_status amb_insist_session(const struct amb_conn *conn,
                                                  struct amb_error *error,
                                                  const struct amb_url *url, bool may_map);
