/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients with a session as the counters list them.
 *
 * Threads: the control thread. Memory: slots of the counters.
 */
#pragma once

#include <stdint.h>

struct amb_client;
struct amb_directory;

/* "live", "ending", ... */
const char *amb_client_state_name(const struct amb_client *client);
/* As the client is now: it is listed while it has a session. */
void amb_client_list(struct amb_client *client);
/* amb_directory.owner_text */
const char *amb_client_owner_text(struct amb_directory *directory, unsigned user, char *out);
/* amb_directory.tenant_text: "" where there are no users, and so no tenants. */
const char *amb_client_tenant_text(struct amb_directory *directory, uint32_t tenant);
