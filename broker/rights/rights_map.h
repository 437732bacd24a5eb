/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trust groups whose memory a user's clients map. A mapping shows all that lies there. So the
 * rights have to cover every pattern of the group, and no deny may meet a topic of it. Then a
 * mapping never shows what a subscription would not.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/rights/rights.h"

#include <stdint.h>

/* A bit for each trust group of the configuration; rights NULL: all. */
uint64_t amb_rights_maps(const struct amb_rights *rights, const struct amb_config *config);
