/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription in another session: asked for again under its handle, from the position behind its
 * last arrival.
 * Threads: under the connection's lock. Memory: see sub.h.
 */
#pragma once

#include <stdbool.h>

struct amb_sub;

/* Asks for it again in another session, under its handle. is_same_epoch: it is the same
 * broker, whose topics have the same ids. */
void amb_sub_resume(struct amb_sub *sub, bool is_same_epoch);
