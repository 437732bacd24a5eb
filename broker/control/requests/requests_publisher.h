/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers as clients open and close them. The directory knows a publisher before its worker
 * does, and forgets it when the worker has closed it.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/requests/requests_private.h"

void amb_request_pub_open(struct amb_client *client, uint64_t id,
                          const Amb__Control__PubOpen *open);
void amb_request_pub_close(struct amb_client *client, uint64_t id,
                           const Amb__Control__PubClose *close);
