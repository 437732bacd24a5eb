/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a subscription: its last reference, and its handle.
 * Threads: as each function says. Memory: freed with the last reference.
 */
#pragma once

struct amb_sub;

/* Gives up a reference. Any thread. */
void amb_sub_unref(struct amb_sub *sub);
/* Its handle may be used again if it has ended and everything of it is back. Lock held. */
void amb_sub_free_handle(struct amb_sub *sub);
