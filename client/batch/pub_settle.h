/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fate of batches that were sent: the broker's word on them, and the rest of them when a
 * session is over.
 *
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_batch;
struct amb_frame;
struct amb_pub;

enum amb_status amb_pub_accepted(struct amb_pub *pub, uint64_t batches);
enum amb_status amb_pub_window(struct amb_pub *pub, uint64_t bytes);
void amb_pub_subscribers(struct amb_pub *pub, uint32_t count);
enum amb_status amb_pub_settled(struct amb_pub *pub, const struct amb_frame *frame);
/* Settles everything posted and not settled with `why`: nothing of it will be heard of again. */
void amb_pub_settle_all(struct amb_pub *pub, enum amb_status why);
/* Everything up to message `last` is over, for `why`. */
void amb_pub_settle_upto(struct amb_pub *pub, uint64_t last, enum amb_status why);
/* A batch that was sent need not be kept to be sent again. Memory that the link still has
 * comes back by itself. */
void amb_pub_unkeep(struct amb_pub *pub, struct amb_batch *batch);
