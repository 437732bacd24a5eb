/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of a topic, by user: those that can read in place where a publisher writes. With trust =
 * "auto" readers of the publisher's own user do; the broker copies once another user has a reader.
 *
 * Two users are counted exactly, and all others together. With more than two users the publisher's
 * own may be among the others: then its batches are copied though they need not be.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/base/user.h"

#define AMB_READERS_USERS 2u

struct amb_readers {
    uint32_t user[AMB_READERS_USERS], count[AMB_READERS_USERS];
    uint32_t others;
};

/* A subscription of that user reads the topic, or does not any more. */
void amb_readers_add(struct amb_readers *readers, uint32_t user);
void amb_readers_remove(struct amb_readers *readers, uint32_t user);
/* Has a reader of each user that `more` has one of; nothing is removed from that again. */
void amb_readers_merge(struct amb_readers *readers, const struct amb_readers *more);
/* Has any other user a reader? */
bool amb_readers_have_foreign(const struct amb_readers *readers, uint32_t user);
