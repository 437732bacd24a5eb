/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The needs of the process before it starts: limits that are large enough, and in the --dev profile
 * the private folder of its socket.
 * Threads: start-up only. Memory: none.
 */
#pragma once

#include "broker/config/config.h"

/* Raises the soft descriptor limit to the hard one; a failure shows in the checks later. */
void amb_resources_raise(void);

/* ELIMIT: error names the limit ("ulimit -v"), what it is and what is needed. */
AMB_MUST_CHECK enum amb_status amb_resources_check(const struct amb_config *config, char *error,
                                                   size_t error_size);

/* True: RDMA will fail for want of lockable memory; text then says so. */
bool amb_resources_memlock_warning(char *text, size_t size);

/*
 * Makes the folder of each Unix listener whose folder is called "ambroker-UID", 0700. EFORBIDDEN:
 * it belongs to somebody else, is open to others or is no folder; error says which.
 */
AMB_MUST_CHECK enum amb_status amb_resources_make_folders(const struct amb_config *config,
                                                          char *error, size_t error_size);
