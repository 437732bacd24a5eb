/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listeners of a configuration: which may be there, and the addresses of those whose host is
 * the name of an interface.
 *
 * A host is an address, "localhost", the name of an interface of this machine, or a host's name.
 * The table of interfaces decides between the last two, and an interface goes first. A name that
 * could be an interface's, and is neither that nor a host's, is refused here. All other hosts are
 * resolved when the listener is opened. A reload asks no resolver. It refuses an interface that was
 * there before and is gone.
 *
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_build.h"

/* Does nobody but this machine reach that host? */
bool amb_config_is_loopback(const char *host);
/* Fills config->doors from config->listen. former: in force; NULL: none. */
AMB_MUST_CHECK enum amb_status amb_config_listen_finish(const struct amb_config_build *build,
                                                        const struct amb_config_machine *machine,
                                                        const struct amb_config *former);
