/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What status tells of readers that spill (spill.h). Their topics' figures are those of all workers
 * that have such readers, together.
 * Threads: as each says. Memory: the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct amb_shard;
struct amb_subscription;

/* On a worker: figures by topic. */
json_t *amb_status_spills(const struct amb_shard *shard);
/* ... bytes that were moved and wait for that subscription. */
uint64_t amb_status_spill_waiting(const struct amb_subscription *sub);
/* On the control thread: adds what a worker has told to the rows of topics. */
void amb_status_add_spills(json_t *rows, const json_t *spills);
