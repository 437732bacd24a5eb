/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a change of roles take something away? Compared line by line, so the answer is on the safe
 * side. A pattern that several new ones cover together, and none of them alone, counts as lost.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/rights/rights.h"

/* Is there something that the former rights allow, and the later ones do not? */
bool amb_rights_lose(const struct amb_rights *former, const struct amb_rights *later);
