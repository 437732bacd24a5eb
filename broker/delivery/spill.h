/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers whose policy is spill. The messages that they alone still wait for are the tail of a log:
 *
 *   lo ... history ... from ....... upto ................ hi
 *                      | they alone  | somebody else too  |
 *
 * A tail holds nobody up. It is beside the log's limits and has one of its own, spill_max of the
 * topic. It keeps neither a GPU's memory nor a publisher's slots. A batch on a GPU is replaced by
 * its twin (twin.h), a leased one in host memory by a copy. That happens as soon as more than
 * AMB_TOPIC_DEPTH waits behind it, or AMB_SPILL_AFTER_NS after it came to the log. A reader that
 * has it mapped keeps it, by a reference of its own.
 *
 * Beyond spill_max, and where there is no host memory, the slowest of these readers lose their
 * oldest, counted like any loss. A batch that a device cannot copy stays where it lies until they
 * come to it. Memory is asked for some times, a little apart, while others are asked to give some
 * up; history goes first then. Where the others are behind by more than the log may hold, those go
 * on as their policy says. The messages that they have left out are the tail's.
 *
 * Each worker with such readers does that in the log it has: a borrower is lent everything at once.
 *
 * Threads: the shard's worker; copies of GPU memory are the copier's. Memory: of the shard's pool.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define AMB_SPILL_AFTER_NS INT64_C(50000000)

struct amb_cursor;
struct amb_shard;
struct amb_topic;

/* After the readers of a topic some of which spill were walked. */
void amb_spill_walk(struct amb_topic *topic);
/* Has topics walked in which something is due; returns when that is, by shard->now_ns. */
int64_t amb_spill_tick(struct amb_shard *shard);
/* Something that it has not read was moved: it is spilling. */
bool amb_spill_is_on(const struct amb_cursor *cursor);
/* Bytes of that. */
uint64_t amb_spill_waiting(const struct amb_cursor *cursor);
