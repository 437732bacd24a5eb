/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions come and go.
 * Threads: under the connection's lock. Memory: see sub.h.
 */
#pragma once

struct amb_sub;

/* Ends it here: nothing of it reaches the program any more. Lock held, may be given up. */
void amb_sub_detach(struct amb_sub *sub);
/* Asks the broker to end it, once. Lock held. */
void amb_sub_leave(struct amb_sub *sub);
