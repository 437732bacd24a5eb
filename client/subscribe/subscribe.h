/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions come and go, and come again in another session.
 * Threads: under the connection's lock. Memory: see sub.h.
 */
#pragma once

#include <stdbool.h>

struct amb_sub;

/* Ends it here: nothing of it reaches the program any more. Lock held, may be given up. */
void amb_sub_detach(struct amb_sub *sub);
/* Asks the broker to end it, once. Lock held. */
void amb_sub_leave(struct amb_sub *sub);
/* Asks for it again in another session, under its handle. */
void amb_sub_resume(struct amb_sub *sub, bool is_same_epoch);
