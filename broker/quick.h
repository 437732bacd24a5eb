/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a quick start. `brokerd --dev --listen tls://...` makes an authority, a certificate,
 * the user `dev` and a file of that user's credentials, once. Another machine needs that file
 * alone.
 *
 * They lie in a folder of this user: $XDG_STATE_HOME/ambroker/dev, else
 * ~/.local/state/ambroker/dev. They are made in another folder, which gets this name as a whole:
 * there are all of them or none.
 *
 * Threads: main. Memory: none.
 */
#pragma once

#include "broker/config/config.h"

/* As struct amb_config_source.quick: finds or makes them. */
AMB_MUST_CHECK enum amb_status amb_quick_start(const struct amb_url *door,
                                               const char *const *environment,
                                               struct amb_config_quick *out,
                                               char why[AMB_CONFIG_QUICK_WHY_MAX]);
/* Says in the log where they are and what to do with them, if the configuration uses such. */
void amb_quick_say(const struct amb_config *config);
