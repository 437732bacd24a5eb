/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which users read a topic where its publishers write: for trust = "auto", which lets the readers
 * of a publisher's own user read in place, and has the broker copy once another user does.
 *
 * Two users are counted exactly, all others together: with more than two of them a publisher's own
 * may be among the others, and then its batches are copied though they need not be.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/user.h"

#define AMB_READERS_USERS 2u

struct amb_readers {
    uint32_t user[AMB_READERS_USERS], count[AMB_READERS_USERS];
    uint32_t others;
};

/* A subscription of that user reads it, or does not any more. */
void amb_readers_add(struct amb_readers *readers, uint32_t user);
void amb_readers_remove(struct amb_readers *readers, uint32_t user);
/* Does anybody but that user? */
bool amb_readers_have_foreign(const struct amb_readers *readers, uint32_t user);
